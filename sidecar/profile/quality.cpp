// SPDX-License-Identifier: Apache-2.0
#include "profile/quality.h"

#include <algorithm>
#include <array>
#include <bit>
#include <set>
#include <string>
#include <utility>

#include "profile/anomalies.h"
#include "profile/recorded_kinds.h"
#include "profile/stack_builder.h"
#include "profile/text.h"

namespace pillion::profile {
namespace {

std::uint64_t sum(const BuildInput& input, std::uint64_t JoinCounters::*field) {
  std::uint64_t total = 0;
  for (const TargetInput& target : input.targets)
    total += target.data != nullptr ? target.data->counters.*field : 0;
  return total;
}

std::uint64_t sum(const BuildInput& input, std::uint64_t TargetQuality::*field) {
  std::uint64_t total = 0;
  for (const TargetInput& target : input.targets) total += target.quality.*field;
  return total;
}

// uint64_t and not std::uint64_t: the wire header's fields may be another type of the same width.
std::uint64_t sum(const BuildInput& input, uint64_t pillion_counters::*field) {
  std::uint64_t total = 0;
  for (const TargetInput& target : input.targets) total += target.quality.counters.*field;
  return total;
}

// The distinct non-empty values, joined.
template <typename Get>
std::string each(const BuildInput& input, Get get) {
  std::set<std::string> values;
  for (const TargetInput& target : input.targets) {
    std::string value = get(target);
    if (!value.empty() && value != "0") values.insert(std::move(value));
  }
  std::string out;
  for (const std::string& value : values) out += (out.empty() ? "" : ", ") + clean_text(value, 512);
  return out.empty() ? "unknown" : out;
}

class Writer {
 public:
  Writer(const BuildInput& input, Profile& profile) : input_(input), profile_(profile) {}

  template <typename Field>
  void count(const char* name, Field field) {
    value(name, sum(input_, field));
  }
  void value(std::string name, std::uint64_t number) {
    profile_.quality.push_back({std::move(name), number});
  }
  void ratio(const char* name, double number) { profile_.quality.push_back({name, number}); }
  void text(const char* name, std::string words) { profile_.quality.push_back({name, std::move(words)}); }

 private:
  const BuildInput& input_;
  Profile& profile_;
};

void join_counters(Writer& out) {
  using C = JoinCounters;
  out.count("launches", &C::launches);
  out.count("launches_failed", &C::launches_failed);
  out.count("launches_captured", &C::launches_captured);
  out.count("host_functions", &C::host_functions);
  out.count("executions", &C::executions);
  out.count("joined", &C::joined);
  out.count("launched_before_session", &C::launched_before);
  out.count("launch_record_lost", &C::launch_lost);
  out.count("pending", &C::pending);
  out.count("pending_earlier", &C::pending_earlier);
  out.count("evicted_unjoined", &C::evicted_unjoined);
  out.count("launches_duplicate", &C::launches_duplicate);
  out.count("failures_unmatched", &C::failed_unmatched);
  out.count("executions_decided_early", &C::decided_early);
  out.count("cells_merged", &C::cells_merged);
  out.count("invalid_stamps_zero", &C::invalid_zero);
  out.count("invalid_stamps_reversed", &C::invalid_reversed);
  out.count("invalid_stamps_before_launch", &C::invalid_before_launch);
  out.count("invalid_stamps_outside_session", &C::invalid_outside_session);
  out.count("stacks", &C::stacks);
  out.count("stacks_empty", &C::stacks_empty);
  out.count("stacks_given_up", &C::stacks_given_up);
  out.count("stacks_unmatched", &C::stacks_unmatched);
  out.count("context_keys_refused", &C::context_keys_refused);
  out.count("names_refused", &C::names_refused);
  out.count("threads_refused", &C::threads_refused);
  out.count("cupti_overhead_records", &C::overhead_records);
  out.count("cupti_overhead_ns", &C::overhead_ns);
  out.count("call_durations_missing", &C::call_durations_missing);
  out.count("returns_unmatched", &C::returns_unmatched);
  out.count("latency_rows_merged", &C::latency_rows_merged);
  out.count("syncs", &C::syncs);
  out.count("syncs_open", &C::syncs_open);
  out.count("syncs_lost", &C::syncs_lost);
  out.count("sync_cells_merged", &C::sync_cells_merged);
}

void shim_counters(Writer& out) {
  using C = pillion_counters;
  out.count("shim_launches", &C::launches);
  out.count("shim_launches_failed", &C::launches_failed);
  out.count("shim_executions", &C::executions);
  out.count("shim_modules_evicted", &C::modules_evicted);
  out.count("snapshots", &C::snapshots);
  out.count("snapshots_truncated", &C::snapshots_truncated);
  out.count("snapshots_foreign", &C::snapshots_foreign);
  out.count("snapshots_faulted", &C::snapshots_faulted);
  out.count("dropped_launches_busy", &C::launches_dropped_busy);
  out.count("dropped_launches_full", &C::launches_dropped_full);
  out.count("dropped_executions_busy", &C::executions_dropped_busy);
  out.count("dropped_executions_full", &C::executions_dropped_full);
  out.count("dropped_by_cupti", &C::cupti_dropped);
  out.count("dropped_snapshots_busy", &C::snapshots_dropped_busy);
  out.count("dropped_snapshots_full", &C::snapshots_dropped_full);
  out.count("dropped_snapshots_sidecar", &TargetQuality::snapshots_dropped_sidecar);
  out.count("dropped_other", &C::other_dropped);
  out.count("dropped_syncs", &C::syncs_dropped);
  out.count("dropped_returns", &C::returns_dropped);
  out.count("records_unknown_to_shim", &C::records_unknown);
  out.count("records_skipped", &TargetQuality::records_skipped);
  out.count("records_bad", &TargetQuality::records_bad);
  out.count("records_missing", &TargetQuality::records_missing);
  out.count("ring_resets_shim", &C::ring_resets);
  out.count("ring_resets_sidecar", &TargetQuality::ring_resets);
  out.count("foreign_buffers", &C::foreign_buffers);
  out.count("sampler_refused_keys", &C::sampler_refused_keys);
  out.count("sampler_refused_budget", &C::sampler_refused_budget);
  out.count("modules_stored", &C::modules_stored);
  out.count("modules_dropped", &C::modules_dropped);
  out.count("modules_too_large", &C::modules_too_large);
  out.count("modules_with_line_info", &TargetQuality::modules_with_line_info);
  out.count("modules_evicted", &TargetQuality::modules_evicted);
}

void python_counters(Writer& out, const BuildInput& input, std::uint64_t unnamed) {
  using C = pillion_counters;
  using T = TargetQuality;
  out.text("python", each(input, [](const TargetInput& t) { return t.quality.python; }));
  out.count("python_snapshots", &C::python_snapshots);
  out.count("python_snapshots_partial", &C::python_partial);
  out.count("python_frames", &T::python_frames);
  out.count("python_runs", &T::python_runs);
  out.count("python_runs_unplaced", &T::python_runs_unplaced);
  out.count("python_native_left", &T::python_evals_left);
  out.count("python_codes", &C::python_codes);
  out.value("python_codes_refused",
            sum(input, &C::python_codes_refused) + sum(input, &T::python_codes_refused));
  out.value("python_frames_unnamed", unnamed);
  out.count("python_walk_ns", &C::python_ns);
}

// ns per launch over the timed handlers; % of the wall time of the threads that launch.
void shim_cost(Writer& out, const BuildInput& input) {
  const std::uint64_t handler_ns = sum(input, &pillion_counters::handler_ns);
  const std::uint64_t calls = sum(input, &pillion_counters::handler_calls);
  const std::uint64_t threads = sum(input, &pillion_counters::launching_threads);
  const double window = static_cast<double>(input.t1_ns - input.t0_ns);
  out.value("shim_handler_ns", handler_ns);
  out.count("shim_snapshot_ns", &pillion_counters::snapshot_ns);
  out.count("shim_completion_ns", &pillion_counters::completion_ns);
  out.ratio("shim_ns_per_launch",
            calls == 0 ? 0 : static_cast<double>(handler_ns) / static_cast<double>(calls));
  out.ratio("shim_percent_of_launching_threads",
            threads == 0 || window <= 0
                ? 0
                : 100 * static_cast<double>(handler_ns) / (window * static_cast<double>(threads)));
  out.value("launching_threads", threads);
  out.text("sample_interval", each(input, [](const TargetInput& t) {
             return std::to_string(t.quality.counters.sample_interval);
           }));
}

// Adds up two structs that are nothing but counters.
template <typename Counters>
void add(Counters& sum, const Counters& more) {
  static_assert(sizeof(Counters) % sizeof(std::uint64_t) == 0);
  using Words = std::array<std::uint64_t, sizeof(Counters) / sizeof(std::uint64_t)>;
  auto words = std::bit_cast<Words>(sum);
  const auto added = std::bit_cast<Words>(more);
  for (std::size_t i = 0; i < words.size(); ++i) words[i] += added[i];
  sum = std::bit_cast<Counters>(words);
}

AnomalyCounts counts_of(const BuildInput& input, const StackCounts& stacks, const IdleCounters& idle) {
  AnomalyCounts counts;
  counts.idle = idle;
  for (const TargetInput& target : input.targets) {
    if (target.data != nullptr) add(counts.join, target.data->counters);
    add(counts.shim, target.quality.counters);
  }
  counts.records_missing = sum(input, &TargetQuality::records_missing);
  counts.records_bad = sum(input, &TargetQuality::records_bad);
  counts.records_skipped = sum(input, &TargetQuality::records_skipped);
  counts.ring_resets = sum(input, &TargetQuality::ring_resets);
  counts.module_slots_bad = sum(input, &TargetQuality::module_slots_bad);
  counts.counters_implausible = sum(input, &TargetQuality::counters_implausible);
  counts.snapshots_dropped_sidecar = sum(input, &TargetQuality::snapshots_dropped_sidecar);
  counts.modules_evicted = sum(input, &TargetQuality::modules_evicted);
  counts.clock_steps = input.quality.clock_steps;
  counts.windows_unsettled = input.quality.windows_unsettled;
  counts.stacks_merged = stacks.merged;
  counts.python_runs_unplaced = sum(input, &TargetQuality::python_runs_unplaced);
  counts.python_codes_refused = sum(input, &TargetQuality::python_codes_refused);
  counts.python_unnamed = stacks.python_unnamed;
  return counts;
}

// Launches of processes that go on whose record had not come, less those whose record is known to be lost.
std::uint64_t launches_pending(const BuildInput& input) {
  std::uint64_t total = 0;
  for (const TargetInput& target : input.targets) {
    if (target.data == nullptr || !target.quality.ended_early.empty()) continue;
    const std::uint64_t pending = target.data->counters.pending + target.data->counters.pending_earlier;
    total += pending - std::min(pending, target.quality.executions_lost);
  }
  return total;
}

void note_pending(const BuildInput& input, Profile& profile) {
  const std::string_view type = profile.type;
  const std::uint64_t pending = launches_pending(input);
  if (pending == 0 || type == "sync") return;
  profile.anomalies.push_back(
      {"launches_pending", pending,
       "launches whose GPU record had not come when the window was answered: they ran still, waited behind "
       "one "
       "that did, or CUPTI held their record back",
       type == "idle"
           ? "what of them had run is shown as idle: at the window's end, from the first of them on, "
             "with the cause unknown, under its stack"
           : "their GPU time belongs to the window in which they end"});
}

// What is no counter: it is true of the window or of one of its processes.
void conditions(const BuildInput& input, Profile& profile) {
  const std::uint64_t launches = sum(input, &JoinCounters::launches);
  const std::uint64_t vain =
      sum(input, &JoinCounters::launches_failed) + sum(input, &JoinCounters::launches_captured);
  if (launches > vain && sum(input, &JoinCounters::executions) == 0 &&
      sum(input, &pillion_counters::executions) == 0) {  // not even of a device that was not asked for
    profile.anomalies.push_back(
        {"no_gpu_records", launches, "launches were seen but not one GPU record",
         why_no_records(launches_pending(input) != 0, sum(input, &TargetQuality::executions_before) != 0)});
  }
  note_pending(input, profile);
  for (const TargetInput& target : input.targets) {
    if (!target.quality.ended_early.empty()) {
      profile.anomalies.push_back({"ended_early", 1, "a process was not recorded until the window's end",
                                   clean_text(target.quality.ended_early, 512)});
    }
    const auto difference = settings_difference(target.quality.settings, target.quality.settings_asked);
    if (!difference.empty()) {
      profile.anomalies.push_back(
          {"settings_not_as_asked", 1, "a shim records with other settings than asked for", difference});
    }
  }
}

void idle_counters(Writer& out, const IdleCounters& idle) {
  out.value("idle_executions_late", idle.executions_late);
  out.value("idle_gaps_merged", idle.gaps_merged);
  out.value("idle_syncs_dropped", idle.syncs_dropped);
}

}  // namespace

std::string why_no_records(bool pending, bool came_before) {
  const std::string held =
      "a kernel runs that holds them back, for CUPTI gives a buffer back only when all records in it are "
      "complete: a longer window has them";
  if (pending && came_before) return held;
  return (pending ? "either " + held + "; or " : std::string()) +
         "libcupti does not fit the driver and gives nothing without saying so: /status names both versions";
}

void describe_quality(const BuildInput& input, const StackCounts& stacks, Profile& profile,
                      const IdleCounters* idle) {
  Writer out(input, profile);
  out.value("targets", input.targets.size());
  out.value("targets_skipped", input.quality.targets_skipped);
  join_counters(out);
  for (std::size_t i = 0; i < std::size(JoinCounters{}.stacks_by_ending); ++i) {
    std::uint64_t total = 0;
    for (const TargetInput& target : input.targets) {
      if (target.data != nullptr) total += target.data->counters.stacks_by_ending[i];
    }
    std::string name = std::string("stacks_ending_") + ending_name(static_cast<StackEnding>(i));
    std::replace(name.begin(), name.end(), '-', '_');
    out.value(std::move(name), total);
  }
  out.value("stacks_distinct", stacks.distinct);
  out.value("stacks_merged", stacks.merged);
  shim_counters(out);
  python_counters(out, input, stacks.python_unnamed);
  if (idle != nullptr) idle_counters(out, *idle);
  shim_cost(out, input);
  out.value("clock_steps", input.quality.clock_steps);
  out.value("windows_unsettled", input.quality.windows_unsettled);
  out.value("subscriber_conflicts", input.quality.subscriber_conflicts);
  out.value("other_sessions", input.quality.other_sessions);
  out.text("cupti_version",
           each(input, [](const auto& t) { return std::to_string(t.quality.cupti_version); }));
  out.text("driver_version",
           each(input, [](const auto& t) { return std::to_string(t.quality.driver_version); }));
  out.text("cupti_path", each(input, [](const auto& t) { return t.quality.cupti_path; }));
  note_unrecorded(input, profile);
  conditions(input, profile);
  for (Anomaly& anomaly : anomalies_of(counts_of(input, stacks, idle != nullptr ? *idle : IdleCounters{}))) {
    profile.anomalies.push_back(std::move(anomaly));
  }
}

}  // namespace pillion::profile
