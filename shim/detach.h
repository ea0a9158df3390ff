// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>

#include "cupti_api.h"

// Leaving CUPTI without harm to the program. What was measured on a GPU (CUDA 13.0): finalising after the
// kinds were disabled kills a program that replays graphs; so does finalising on another thread than the one
// that replays them, and any finalising while two threads do. Hence: kinds stay enabled, unsubscribe and
// finalize happen at the exit of an API call on the right thread of the program, or not at all.
namespace pillion::shim {

enum class DetachState : std::uint32_t { idle, pending, running, done };

extern std::atomic<DetachState> g_detach;

// Launch path: whether an API exit has something to do.
[[nodiscard]] inline bool detach_pending() {
  return g_detach.load(std::memory_order_relaxed) == DetachState::pending;
}

// At an API call's exit on a thread of the program, while pending: unsubscribes and finalises if this is the
// right one.
void detach_at_api_exit();

struct DetachSubject {
  const CuptiApi* api;
  cupti::Subscriber subscriber;
  const cupti::ActivityKind* kinds;  // that are enabled
  std::uint32_t kind_count;
};

// Capture thread: ends the subscription the best way the program survives and returns enum pillion_residue.
// Waits up to `may_wait_ms` for the right thread to leave an API call.
[[nodiscard]] std::uint32_t detach(const DetachSubject& subject, bool finalize, std::uint32_t may_wait_ms);

}  // namespace pillion::shim
