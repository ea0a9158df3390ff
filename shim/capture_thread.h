// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "abi/pillion_abi.h"
#include "capture.h"

// The thread on which everything of capture.h runs, one per session. It is told what to do by a futex word
// and tells by release stores that the control thread looks at; neither ever waits for the other, so a CUPTI
// call that does not return costs a session and not the program.
//
// All functions: control thread only.
namespace pillion::shim {

enum class CapturePhase : std::uint32_t {
  none,      // no thread
  arming,    // inside capture_arm()
  armed,     // ticking
  refused,   // capture_arm() said no; the thread is ending
  disarmed,  // capture_disarm() has returned; the thread is ending
};

struct FlushAnswer {
  std::uint64_t begun_ns;
  std::uint32_t cupti_result;
};

struct DisarmOrder {
  bool flush_first;
  bool finalize;
  std::uint32_t wait_ms;
};

// Starts the thread on this request. Only in phase none. False when no thread could be made.
[[nodiscard]] bool capture_start(const CaptureRequest& request);

[[nodiscard]] CapturePhase capture_phase();

// Valid once the phase is armed or later, and refused.
[[nodiscard]] const pillion_armed& capture_armed();
[[nodiscard]] const pillion_refused& capture_refused();

// One at a time: the next after capture_take_flush() has answered. False while one is under way.
[[nodiscard]] bool capture_order_flush(bool forced);
[[nodiscard]] bool capture_take_flush(FlushAnswer* out);

// May be given while arming: then it is carried out as soon as capture_arm() returns.
void capture_order_disarm(const DisarmOrder& order);

// In phase disarmed.
[[nodiscard]] std::uint32_t capture_residue();

// Why capture_tick() gave up (enum pillion_disarm_reason), 0 while it has not. A disarm must follow.
[[nodiscard]] std::uint32_t capture_lost();

// What it said about it, or "". Valid like capture_lost().
[[nodiscard]] const char* capture_lost_text();

// Whether a library was loaded or unloaded since the last call.
[[nodiscard]] bool capture_take_libraries_changed();

[[nodiscard]] std::uint64_t capture_last_tick_ns();

// After refused or disarmed: whether the thread is gone from the process. Within microseconds, unless the
// destructors of what CUPTI keeps per thread take longer.
[[nodiscard]] bool capture_thread_ended();

// After refused or disarmed: back to none. Never blocks: the thread touches nothing of ours after its last
// phase. Its stack is unmapped if it has ended, else left.
void capture_forget();

}  // namespace pillion::shim
