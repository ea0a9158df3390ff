// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "arming.h"
#include "module_keeper.h"

// PILLION_EAGER=1: subscribed to CUPTI for module loads from the first CUDA context on, armed or not. Costs
// the program CUPTI's subscriber for good (torch.profiler gets no CUDA events), a copy of each module, and
// nothing per launch.
namespace pillion::shim {

extern ModuleKeeper g_keeper;

// Whoever runs InitializeInjection: starts a thread that waits for a context, without a call of CUDA or CUPTI
// before there is one (so cuInit has returned), subscribes and ends.
void start_eager();

// Capture thread. The subscription that is held, for arming to build on; else subscriber is null. Waits for a
// subscribing that is under way.
[[nodiscard]] Subscription take_eager_subscription();

// Capture thread, after a session: subscribes anew, if this process is eager.
void resume_eager();

// Any thread, in a RESOURCE callback.
[[nodiscard]] bool is_eager();

}  // namespace pillion::shim
