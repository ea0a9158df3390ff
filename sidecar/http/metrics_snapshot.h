// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <string>

namespace pillion::http {

// Totals since the program started, over all processes, and what is held now. The keys of the maps become
// label values: they must come from a fixed set (an enum's names), never from the workload.
struct MetricsSnapshot {
  using ByReason = std::map<std::string, std::uint64_t>;

  // Now.
  std::uint64_t sessions_connected = 0;  // armed ones included
  std::uint64_t sessions_armed = 0;
  std::uint64_t windows_open = 0;
  std::uint64_t launches_pending = 0;  // no execution has come yet
  std::uint64_t modules_stored = 0;
  std::uint64_t modules_stored_bytes = 0;
  std::uint64_t ring_bytes = 0;  // shared memory of all rings
  std::uint64_t unwind_rows_cached = 0;

  // Since the start.
  std::uint64_t sessions = 0;
  ByReason sessions_refused;  // by reason: subscriber_held, other_uid, version...
  std::uint64_t windows = 0;
  std::uint64_t launches = 0;
  std::uint64_t snapshots = 0;
  std::uint64_t executions = 0;
  std::uint64_t executions_joined = 0;
  std::uint64_t launched_before_session = 0;
  std::uint64_t evicted_unjoined = 0;
  ByReason records_dropped;  // by reason: busy, full, torn...
  ByReason invalid_stamps;   // by kind
  ByReason stacks;           // by ending: rooted, fiber, no_cfi...
  ByReason anomalies;        // by kind, all of them
  std::uint64_t modules_evicted = 0;
  std::uint64_t clock_steps = 0;
  double gpu_seconds = 0;   // durations of all executions
  double shim_seconds = 0;  // time the shims spent on launching threads, as they measured it
};

}  // namespace pillion::http
