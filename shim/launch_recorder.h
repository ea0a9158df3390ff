// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "capture_session.h"
#include "cupti_types.h"

// The subscriber's callback: one record per launch, copy, set, graph launch and host function, a stack for
// some of them, one more record when the call failed; modules; CUPTI's end.
namespace pillion::shim {

// For cuptiSubscribe. Runs on whatever thread makes the CUDA call. An unsampled launch makes no system call,
// takes no lock, allocates nothing and faults nowhere, except at a thread's first launch of a session.
void subscriber_callback(void* userdata, cupti::CallbackDomain domain, std::uint32_t cbid, const void* data);

// Capture thread: brings pillion_counters::launches up to date with what the rings have counted since the
// last call.
void add_recorded_launches(CaptureSession& session);

// Whether CUPTI has said that it met a fatal error and finalised itself.
[[nodiscard]] bool cupti_is_lost();

// Capture thread, before subscribing anew.
void forget_cupti_loss();

}  // namespace pillion::shim
