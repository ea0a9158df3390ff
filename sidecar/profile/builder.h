// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "abi/pillion_abi.h"
#include "base/capture_settings.h"
#include "base/idle_data.h"
#include "base/stack_table.h"
#include "base/window_data.h"
#include "profile/frame_resolver.h"
#include "profile/profile.h"

namespace pillion::profile {

// What only the session and the collect stage know about one target, for the quality block.
struct TargetQuality {
  pillion_counters counters{};       // the shim's, end of window minus its beginning; launching_threads,
                                     // sample_interval and last_tick_ns as they stand at the end
  std::uint32_t driver_version = 0;  // cuDriverGetVersion
  std::uint32_t cupti_version = 0;   // cuptiGetVersion
  std::string cupti_path;
  std::uint64_t executions_before = 0;  // GPU records of the session before the window
  std::uint64_t executions_lost = 0;  // GPU records of the session, up to the window's end, that were dropped
  std::uint64_t records_skipped = 0;  // types or sizes that the sidecar does not know
  std::uint64_t records_bad = 0;      // failed a bound check
  std::uint64_t ring_resets = 0;      // by the sidecar
  std::uint64_t records_missing = 0;  // gaps in the rings' record numbers
  std::uint64_t module_slots_bad = 0;
  std::uint64_t counters_implausible = 0;
  std::uint64_t snapshots_dropped_sidecar = 0;  // unwinder's queue full
  std::uint64_t modules_with_line_info = 0;
  std::uint64_t modules_evicted = 0;
  CaptureSettings settings;        // in force, as the shim said
  CaptureSettings settings_asked;  // by this sidecar
  std::string python;  // what the shim says of Python frames: version, and why they are not in force
  std::uint64_t python_frames = 0;
  std::uint64_t python_runs = 0;           // of frames that one native frame stands for
  std::uint64_t python_runs_unplaced = 0;  // whose native frame was not found
  std::uint64_t python_evals_left = 0;     // native frames of the interpreter's loop without Python frames
  std::uint64_t python_codes_refused = 0;  // by the sidecar
  std::string ended_early;  // "workload exited", "lease expired"; empty: the target saw the window's end
};

// One target session in the window. The pointers are read during build() only.
struct TargetInput {
  TargetId id = 0;
  SessionId session = 0;
  std::uint32_t pid = 0;  // as the sidecar sees it
  std::string comm;
  std::string exe;
  PodIdentity pod;                     // what is empty is no label
  const WindowData* data = nullptr;    // nullptr: the target failed, only its quality counts
  const StackTable* stacks = nullptr;  // that data's StackIds mean
  TargetQuality quality;
};

// What is known about the window as a whole.
struct WindowQuality {
  std::uint64_t clock_steps = 0;  // CLOCK_REALTIME jumped against CLOCK_MONOTONIC
  std::uint64_t subscriber_conflicts =
      0;                                // targets refused because another CUPTI client holds the subscriber
  std::uint64_t other_sessions = 0;     // shims held by another sidecar
  std::uint64_t targets_skipped = 0;    // past -max-sessions
  std::uint64_t windows_unsettled = 0;  // 1: answered before all of its records had come
};

struct BuildInput {
  std::int64_t start_wall_ns = 0;  // CLOCK_REALTIME of t0
  std::uint64_t t0_ns = 0;         // CLOCK_MONOTONIC
  std::uint64_t t1_ns = 0;
  std::vector<TargetInput> targets;
  WindowQuality quality;
  std::vector<Anomaly> anomalies;  // seen elsewhere; build() appends what it finds in the counters
  std::size_t stacks_max =
      20'000;  // distinct ones; go tool pprof -top takes 2.6 s at 20,000, 12 s at 100,000
};

// Makes the profile of a window. On any thread; reads only its arguments. GPU time, launches, queue time and
// bytes of the input appear in the samples to the last unit, whatever had to be merged.
[[nodiscard]] Profile build(const BuildInput& input, FrameResolver& resolver);

}  // namespace pillion::profile
