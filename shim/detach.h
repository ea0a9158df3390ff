// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>

#include "cupti_api.h"
#include "finalize_budget.h"

// Leaving CUPTI without harm to the program. What was measured on a GPU (CUDA 13.0): finalising after the
// kinds were disabled kills a program that replays graphs; so does finalising on another thread than the one
// that replays them, and any finalising while two threads do. Hence: kinds stay enabled, unsubscribe and
// finalize happen at the exit of an API call on the right thread of the program, or not at all.
namespace pillion::shim {

// What the capture thread offers and a thread of the program takes: the phase in the two low bits, above them
// the number of the detach. A thread that looked at one detach, and was preempted until the next, can so not
// take that one for its own.
enum DetachPhase : std::uint32_t { kDetachIdle = 0, kDetachPending = 1, kDetachRunning = 2 };
inline constexpr std::uint32_t kDetachPhases = 3;

extern std::atomic<std::uint32_t> g_detach;

// Launch path: whether an API exit has something to do.
[[nodiscard]] inline bool detach_pending() {
  return (g_detach.load(std::memory_order_relaxed) & kDetachPhases) == kDetachPending;
}

// At an API call's exit on a thread of the program, while pending: the detach that is this thread's to carry
// out, or 0.
[[nodiscard]] std::uint32_t detach_offer();

// Unsubscribes and finalises, unless the offer was called off or taken meanwhile.
void take_detach(std::uint32_t offer);

inline void detach_at_api_exit() {
  if (const std::uint32_t offer = detach_offer(); offer != 0) take_detach(offer);
}

// Capture thread, before it subscribes: a finalize that is still pending would end the session that begins.
// Returns once none is pending or under way.
void call_off_detach();

// Capture thread: somebody else has finalised CUPTI, or CUPTI itself.
void note_finalized_elsewhere();

// In a forked child.
void forget_detach_in_child();

struct DetachSubject {
  const CuptiApi* api;
  cupti::Subscriber subscriber;
  const cupti::ActivityKind* kinds;  // that are enabled
  std::uint32_t kind_count;
  bool alone;              // false: another client of the process meddles with CUPTI: no finalizing under it
  bool buffers_ours;       // false: another client has registered its own, and the kinds are its
  bool subscription_ours;  // false: the handle leads nowhere, or to another client's
  FinalizeBudget* budget;
};

// Capture thread: ends the subscription the best way the program survives and returns enum pillion_residue.
// Waits up to `may_wait_ms` for the right thread to leave an API call; not at all when that thread is no
// more.
[[nodiscard]] std::uint32_t detach(const DetachSubject& subject, bool finalize, std::uint32_t may_wait_ms);

}  // namespace pillion::shim
