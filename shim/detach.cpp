// SPDX-License-Identifier: Apache-2.0
#include "detach.h"

#include <cerrno>

#include "graph_threads.h"
#include "shim_log.h"
#include "system_calls.h"
#include "thread_state.h"

namespace pillion::shim {

std::atomic<DetachState> g_detach{DetachState::idle};

namespace {

// Below API version 24 (CUDA 12.6) every graph is treated as the dangerous case.
constexpr std::uint32_t kGraphSafeVersion = 24;

// Written by the capture thread before it releases `pending`.
DetachSubject g_subject;
std::uint32_t g_only_tid;  // 0: any thread

std::atomic<std::uint32_t> g_finished{0};  // futex word

// What cannot be finalised is switched off. The flush in between gives back records that belong to no
// session.
void disable_and_unsubscribe(const DetachSubject& subject) {
  for (std::uint32_t at = 0; at < subject.kind_count; ++at)
    (void)subject.api->activity_disable(subject.kinds[at]);
  (void)subject.api->flush_all(cupti::kFlushForced);
  (void)subject.api->unsubscribe(subject.subscriber);
}

// True when a thread of the program has finalised; false when none came in time, and none will any more.
bool finalize_at_next_exit(const DetachSubject& subject, std::uint32_t only_tid, std::uint32_t may_wait_ms) {
  g_subject = subject;
  g_only_tid = only_tid;
  g_finished.store(0, std::memory_order_relaxed);
  g_detach.store(DetachState::pending, std::memory_order_release);
  const std::uint64_t deadline = monotonic_ns() + std::uint64_t{may_wait_ms} * 1'000'000u;
  while (g_finished.load(std::memory_order_acquire) == 0) {
    const std::uint64_t now = monotonic_ns();
    if (now < deadline) {
      futex_wait(&g_finished, 0, deadline - now);
      continue;
    }
    DetachState pending = DetachState::pending;
    if (g_detach.compare_exchange_strong(pending, DetachState::idle, std::memory_order_acq_rel)) return false;
    futex_wait(&g_finished, 0,
               10'000'000);  // a thread is at it: it must be through before anything else happens
  }
  g_detach.store(DetachState::idle, std::memory_order_relaxed);
  return true;
}

}  // namespace

void detach_at_api_exit() {
  // Pairs with the release in finalize_at_next_exit(): subject and tid are there.
  if (g_detach.load(std::memory_order_acquire) != DetachState::pending) return;
  const std::uint32_t only = g_only_tid;
  if (only != 0 && only != own_tid()) return;
  DetachState pending = DetachState::pending;
  if (!g_detach.compare_exchange_strong(pending, DetachState::running, std::memory_order_acq_rel)) return;
  const int saved_errno = errno;
  (void)g_subject.api->unsubscribe(g_subject.subscriber);
  (void)g_subject.api->finalize();
  g_detach.store(DetachState::done, std::memory_order_relaxed);
  // Pairs with the acquire in finalize_at_next_exit().
  g_finished.store(1, std::memory_order_release);
  futex_wake(&g_finished);
  errno = saved_errno;
}

std::uint32_t detach(const DetachSubject& subject, bool finalize, std::uint32_t may_wait_ms) {
  if (!finalize) {
    disable_and_unsubscribe(subject);
    return PILLION_RESIDUE_NOT_ASKED;
  }
  const GraphUse graphs = graph_use(monotonic_ns());
  if (graphs.kind != GraphUse::none && subject.api->version < kGraphSafeVersion) {
    disable_and_unsubscribe(subject);
    return PILLION_RESIDUE_OLD_CUPTI;
  }
  if (graphs.kind == GraphUse::several) {
    disable_and_unsubscribe(subject);
    return PILLION_RESIDUE_GRAPHS;
  }
  if (finalize_at_next_exit(subject, graphs.tid, may_wait_ms)) return PILLION_RESIDUE_FINALIZED;
  log_line("no API call came to finalize CUPTI in; waited ms", "", may_wait_ms);
  disable_and_unsubscribe(subject);
  return PILLION_RESIDUE_NO_API_CALL;
}

}  // namespace pillion::shim
