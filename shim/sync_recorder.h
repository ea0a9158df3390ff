// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "capture_session.h"
#include "cupti_types.h"

// The callbacks of synchronisation calls, and what a call's return adds to its launch or synchronisation. On
// the program's threads, with the rules of a launch: no wait, no allocation, no system call but at a thread's
// first call of a session.
namespace pillion::shim {

// A SYNC record, and a stack for some of them, taken before the call waits. `sp`: the callback's frame.
void on_sync_enter(CaptureSession& session, std::uint32_t cbid, const cupti::CallbackData& data,
                   std::uint64_t sp);

// A RETURNED record, if the call's own record was published in this session. `flags`: enum
// pillion_returned_flags.
void on_call_return(CaptureSession& session, const cupti::CallbackData& data, std::uint32_t flags);

}  // namespace pillion::shim
