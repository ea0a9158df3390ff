// SPDX-License-Identifier: Apache-2.0
#include "detach.h"

#include <cerrno>

#include "capture_session.h"
#include "capture_step.h"
#include "graph_threads.h"
#include "shim_log.h"
#include "system_calls.h"
#include "thread_state.h"

namespace pillion::shim {

std::atomic<std::uint32_t> g_detach{kDetachIdle};

namespace {

// Below API version 24 (CUDA 12.6) every graph is treated as the dangerous case.
constexpr std::uint32_t kGraphSafeVersion = 24;

// Written by the capture thread before it releases `pending`; the subject is read by who has taken the detach
// alone.
DetachSubject g_subject;
std::atomic<std::uint32_t> g_only_tid{0};  // 0: any thread

// Futex word: how the detach that was offered has ended.
enum Ending : std::uint32_t { kOpen, kFinalized, kCalledOff };
std::atomic<std::uint32_t> g_finished{kOpen};

// Capture thread. Whether kinds were disabled since CUPTI was last finalised, after a graph had been
// recorded: a graph that is replayed with kinds disabled after it was recorded, and not recorded again, kills
// at finalize (measured: tests/gpu/cupti_facts.cpp). While nobody is subscribed nobody sees replays.
bool g_disabled_after_graphs = false;
bool g_graphs_recorded = false;  // since CUPTI was last finalised

// What cannot be finalised is switched off. The flush gives back records that belong to no session.
void disable_and_unsubscribe(const DetachSubject& subject) {
  // Callbacks go with the subscription.
  for (std::uint32_t at = 0; at < subject.kind_count; ++at) {
    const CaptureStep step("cuptiActivityDisable");
    (void)subject.api->activity_disable(subject.kinds[at]);
  }
  if (graph_use(monotonic_ns()).kind != GraphUse::none) g_graphs_recorded = true;
  if (g_graphs_recorded) g_disabled_after_graphs = true;
  if (subject.buffers_ours && g_flush_policy.allowed()) {
    const CaptureStep step("cuptiActivityFlushAll");
    (void)subject.api->flush_all(cupti::kFlushForced);
  }
  if (subject.subscription_ours) {
    const CaptureStep step("cuptiUnsubscribe");
    (void)subject.api->unsubscribe(subject.subscriber);
  }
}

// Waits until a taken detach is through: it must be before anything else happens.
void await_taken() {
  while (g_finished.load(std::memory_order_acquire) == 0) futex_wait(&g_finished, 0, 10'000'000);
}

// Withdraws the offer. False when a thread has taken it.
bool withdraw(std::uint32_t word) {
  return g_detach.compare_exchange_strong(word, (word & ~kDetachPhases) | kDetachIdle,
                                          std::memory_order_acq_rel);
}

// True when a thread of the program has finalised; false when none came in time, and none will any more.
bool finalize_at_next_exit(const DetachSubject& subject, std::uint32_t only_tid, std::uint32_t may_wait_ms) {
  g_subject = subject;
  g_only_tid.store(only_tid, std::memory_order_relaxed);
  g_finished.store(kOpen, std::memory_order_relaxed);
  const std::uint32_t number =
      (g_detach.load(std::memory_order_relaxed) & ~kDetachPhases) + kDetachPhases + 1;
  const std::uint32_t word = number | kDetachPending;
  g_detach.store(word, std::memory_order_release);
  const std::uint64_t deadline = monotonic_ns() + std::uint64_t{may_wait_ms} * 1'000'000u;
  while (g_finished.load(std::memory_order_acquire) == 0) {
    const std::uint64_t now = monotonic_ns();
    if (now < deadline) {
      futex_wait(&g_finished, 0, deadline - now);
      continue;
    }
    if (withdraw(word)) return false;
    await_taken();
  }
  if (g_finished.load(std::memory_order_acquire) != kFinalized) return false;
  g_detach.store(number | kDetachIdle, std::memory_order_relaxed);
  return true;
}

std::uint32_t without_finalize(const DetachSubject& subject, std::uint32_t residue) {
  disable_and_unsubscribe(subject);
  return residue;
}

}  // namespace

std::uint32_t detach_offer() {
  // Pairs with the release in finalize_at_next_exit(): subject and tid are there.
  const std::uint32_t word = g_detach.load(std::memory_order_acquire);
  if ((word & kDetachPhases) != kDetachPending) return 0;
  const std::uint32_t only = g_only_tid.load(std::memory_order_relaxed);
  return only == 0 || only == own_tid() ? word : 0;
}

void take_detach(std::uint32_t offer) {
  std::uint32_t expected = offer;
  const std::uint32_t running = (offer & ~kDetachPhases) | kDetachRunning;
  if (!g_detach.compare_exchange_strong(expected, running, std::memory_order_acq_rel)) return;
  const int saved_errno = errno;
  (void)g_subject.api->unsubscribe(g_subject.subscriber);
  (void)g_subject.api->finalize();
  // Pairs with the acquire in finalize_at_next_exit().
  g_finished.store(kFinalized, std::memory_order_release);
  futex_wake(&g_finished);
  errno = saved_errno;
}

void call_off_detach() {
  const std::uint32_t word = g_detach.load(std::memory_order_acquire);
  if ((word & kDetachPhases) == kDetachIdle) return;
  if ((word & kDetachPhases) == kDetachPending && withdraw(word)) {
    g_finished.store(kCalledOff, std::memory_order_release);
    futex_wake(&g_finished);
    return;
  }
  await_taken();
  g_detach.store((word & ~kDetachPhases) | kDetachIdle, std::memory_order_relaxed);
}

void forget_detach_in_child() { g_detach.store(kDetachIdle, std::memory_order_relaxed); }

std::uint32_t detach(const DetachSubject& subject, bool finalize, std::uint32_t may_wait_ms) {
  if (!subject.alone) return without_finalize(subject, PILLION_RESIDUE_FOREIGN);
  if (!finalize) return without_finalize(subject, PILLION_RESIDUE_NOT_ASKED);
  const GraphUse graphs = graph_use(monotonic_ns());
  if (graphs.kind != GraphUse::none && subject.api->version < kGraphSafeVersion)
    return without_finalize(subject, PILLION_RESIDUE_OLD_CUPTI);
  if (graphs.kind == GraphUse::several) return without_finalize(subject, PILLION_RESIDUE_GRAPHS);
  if (g_disabled_after_graphs) return without_finalize(subject, PILLION_RESIDUE_DISABLED_BEFORE);
  if (!subject.budget->take(monotonic_ns()))
    return without_finalize(subject, PILLION_RESIDUE_FINALIZED_OFTEN);
  if (graphs.kind == GraphUse::one_thread && thread_is_gone(graphs.tid)) may_wait_ms = 0;
  if (finalize_at_next_exit(subject, graphs.tid, may_wait_ms)) {
    g_graphs_recorded = false;
    return PILLION_RESIDUE_FINALIZED;
  }
  subject.budget->give_back();
  log_line("no API call came to finalize CUPTI in; waited ms", "", may_wait_ms);
  return without_finalize(subject, PILLION_RESIDUE_NO_API_CALL);
}

void note_finalized_elsewhere() { g_disabled_after_graphs = g_graphs_recorded = false; }

}  // namespace pillion::shim
