// SPDX-License-Identifier: Apache-2.0
#include "profile/anomalies.h"

namespace pillion::profile {
namespace {

using Counts = AnomalyCounts;

const std::vector<AnomalyKind> kKinds = {
    // GPU time that is missing.
    {"executions_dropped", "GPU records found no room in the rings: their GPU time is missing",
     [](const Counts& c) { return c.shim.executions_dropped_busy + c.shim.executions_dropped_full; }},
    {"cupti_dropped", "CUPTI had no buffer for GPU records and dropped them: their GPU time is missing",
     [](const Counts& c) { return std::uint64_t{c.shim.cupti_dropped}; }},
    {"records_missing",
     "records were written into a ring and never came out of it: what they said is missing",
     [](const Counts& c) { return c.records_missing; }},
    {"ring_resets",
     "a ring's position was impossible, and the ring began anew: something wrote into its memory",
     [](const Counts& c) { return c.ring_resets + c.shim.ring_resets; }},
    {"records_bad", "malformed records in a ring: what stood behind them in the same batch is missing",
     [](const Counts& c) { return c.records_bad; }},
    {"records_unknown", "records of a kind or size that this version does not know were left out",
     [](const Counts& c) { return c.records_skipped + c.shim.records_unknown; }},
    {"invalid_stamps_zero", "GPU records without a start or an end: counted as launches, their time left out",
     [](const Counts& c) { return c.join.invalid_zero; }},
    {"invalid_stamps_reversed", "GPU records that end before they start: counted, their time left out",
     [](const Counts& c) { return c.join.invalid_reversed; }},
    {"invalid_stamps_before_launch",
     "GPU records that start before they were launched: counted, their time left out",
     [](const Counts& c) { return c.join.invalid_before_launch; }},
    {"invalid_stamps_outside_session",
     "GPU records from before the session or from the future, as when another CUPTI client changes the "
     "clock: "
     "counted, their time left out",
     [](const Counts& c) { return c.join.invalid_outside_session; }},
    {"windows_unsettled",
     "the window was answered in time although records that belong to it were still on their way",
     [](const Counts& c) { return c.windows_unsettled; }},
    // Launches that do not stand where they belong.
    {"launches_dropped",
     "launch records found no room in the rings: their executions stand under [launch record lost]",
     [](const Counts& c) { return c.shim.launches_dropped_busy + c.shim.launches_dropped_full; }},
    {"evicted_unjoined",
     "the table of waiting launches was full, and the oldest left it before it was executed",
     [](const Counts& c) { return c.join.evicted_unjoined; }},
    {"launch_record_lost", "executions whose launch record is gone: they stand under [launch record lost]",
     [](const Counts& c) { return c.join.launch_lost; }},
    {"executions_decided_early",
     "too many executions waited for their launch: the oldest were shown without waiting longer",
     [](const Counts& c) { return c.join.decided_early; }},
    {"launches_duplicate", "a second launch with the id of one that still waits was left out",
     [](const Counts& c) { return c.join.launches_duplicate; }},
    {"failures_unmatched", "a launch failed whose record is gone",
     [](const Counts& c) { return c.join.failed_unmatched; }},
    // Times of calls; GPU time is exact.
    {"syncs_dropped", "synchronisation calls found no room in the rings: their time is missing",
     [](const Counts& c) { return std::uint64_t{c.shim.syncs_dropped}; }},
    {"syncs_lost", "synchronisation calls whose return did not come: their time is missing",
     [](const Counts& c) { return c.join.syncs_lost; }},
    {"call_durations_missing", "how long some launch calls took is not known",
     [](const Counts& c) { return c.join.call_durations_missing; }},
    {"latencies_merged",
     "more kernels and streams than a window keeps latencies of: the others' stand under [other]",
     [](const Counts& c) { return c.join.latency_rows_merged; }},
    {"sync_cells_merged", "more distinct synchronisation samples than a window holds: merged into [other]",
     [](const Counts& c) { return c.join.sync_cells_merged; }},
    // Stacks and names that are missing; GPU time is exact.
    {"snapshots_dropped",
     "stack snapshots found no room on their way: launches are shown under other stacks of their kind",
     [](const Counts& c) {
       return c.shim.snapshots_dropped_busy + c.shim.snapshots_dropped_full + c.snapshots_dropped_sidecar;
     }},
    {"stacks_given_up", "a snapshot did not become a stack in time",
     [](const Counts& c) { return c.join.stacks_given_up; }},
    {"stacks_unmatched", "a stack whose launch is gone",
     [](const Counts& c) { return c.join.stacks_unmatched; }},
    {"context_keys_refused",
     "more launch sites than are remembered: some stacks do not count for others of their kind",
     [](const Counts& c) { return c.join.context_keys_refused; }},
    {"names_refused", "more kernel names than are kept: some kernels have none",
     [](const Counts& c) { return c.join.names_refused; }},
    {"threads_refused", "more threads than are kept: some have no name",
     [](const Counts& c) { return c.join.threads_refused; }},
    {"cells_merged", "more distinct samples than a window holds: merged into [other]",
     [](const Counts& c) { return c.join.cells_merged; }},
    {"stacks_merged", "more distinct stacks than a profile shows: merged into [other]",
     [](const Counts& c) { return c.stacks_merged; }},
    {"python_unplaced",
     "Python frames whose place among the native ones was not found: they stand behind a frame that says so",
     [](const Counts& c) { return c.python_runs_unplaced; }},
    {"python_partial", "the chain of Python frames could not be followed to its end: a frame says so",
     [](const Counts& c) { return std::uint64_t{c.shim.python_partial}; }},
    {"python_codes_missing", "Python code objects found no room or never came: their frames have no name",
     [](const Counts& c) {
       return std::uint64_t{c.shim.python_codes_refused} + c.python_codes_refused + c.python_unnamed;
     }},
    // Idle profiles.
    {"idle_executions_late",
     "executions came after the gap that they lie in had been charged as idle: their time is not busy",
     [](const Counts& c) { return c.idle.executions_late; }},
    {"idle_gaps_merged", "idle time of more launch sites than are kept: merged into [other]",
     [](const Counts& c) { return c.idle.gaps_merged; }},
    {"idle_syncs_dropped",
     "synchronisation calls were not remembered long enough: gaps behind them are host-bound instead of "
     "synchronising",
     [](const Counts& c) { return c.idle.syncs_dropped; }},
    // Modules: lines within kernels.
    {"modules_dropped", "GPU modules found no room on their way: their kernels have no source lines",
     [](const Counts& c) { return std::uint64_t{c.shim.modules_dropped}; }},
    {"modules_too_large", "GPU modules larger than are kept: their kernels have no source lines",
     [](const Counts& c) { return std::uint64_t{c.shim.modules_too_large}; }},
    {"modules_evicted", "the store of GPU modules was full, and the oldest left it",
     [](const Counts& c) { return c.modules_evicted; }},
    {"module_slots_bad", "a module was offered that lies outside its memory",
     [](const Counts& c) { return c.module_slots_bad; }},
    // The surroundings.
    {"clock_steps", "CLOCK_REALTIME was set: times of day may be off by the step, durations are not",
     [](const Counts& c) { return c.clock_steps; }},
    {"foreign_buffers", "CUPTI gave back buffers that another client had given it",
     [](const Counts& c) { return std::uint64_t{c.shim.foreign_buffers}; }},
    {"counters_implausible",
     "a counter of the shim went backwards or is impossibly large: its last good value stands",
     [](const Counts& c) { return c.counters_implausible; }},
};

}  // namespace

const std::vector<AnomalyKind>& anomaly_kinds() { return kKinds; }

std::vector<Anomaly> anomalies_of(const AnomalyCounts& counts) {
  std::vector<Anomaly> found;
  for (const AnomalyKind& kind : kKinds) {
    if (const std::uint64_t total = kind.total(counts)) found.push_back({kind.kind, total, kind.meaning, {}});
  }
  return found;
}

}  // namespace pillion::profile
