// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "abi/pillion_abi.h"
#include "base/idle_data.h"
#include "base/window_data.h"
#include "profile/profile.h"

namespace pillion::profile {

// Everything that may go wrong between a launch and a profile, counted: a window's share for its quality
// block, or totals since the program started for /status, /metrics and the log. Plain numbers.
struct AnomalyCounts {
  JoinCounters join;
  pillion_counters shim{};
  std::uint64_t records_missing = 0;  // gaps in the rings' record numbers
  std::uint64_t records_bad = 0;
  std::uint64_t records_skipped = 0;
  std::uint64_t ring_resets = 0;  // by the sidecar
  std::uint64_t module_slots_bad = 0;
  std::uint64_t counters_implausible = 0;
  std::uint64_t snapshots_dropped_sidecar = 0;
  std::uint64_t modules_evicted = 0;
  std::uint64_t clock_steps = 0;
  std::uint64_t windows_unsettled = 0;
  std::uint64_t stacks_merged = 0;
  std::uint64_t python_runs_unplaced = 0;
  std::uint64_t python_codes_refused = 0;  // by the sidecar
  IdleCounters idle;
  std::uint64_t python_unnamed = 0;  // frames of a profile whose code object never came
};

// One kind of anomaly: its name in JSON, comments and metrics, and what it means, in plain words. There are
// about thirty, and no more: the name may be a metric's label.
struct AnomalyKind {
  const char* kind;
  const char* meaning;
  std::uint64_t (*total)(const AnomalyCounts&);
};

// In the order in which they are shown. The table in sidecar/README.md says what to do about each.
[[nodiscard]] const std::vector<AnomalyKind>& anomaly_kinds();

// Those that occurred.
[[nodiscard]] std::vector<Anomaly> anomalies_of(const AnomalyCounts& counts);

}  // namespace pillion::profile
