// SPDX-License-Identifier: Apache-2.0
#include "profile/quality.h"

#include <algorithm>
#include <set>
#include <string>

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

  template <typename Field>
  void anomaly(const char* kind, Field field, const char* words) {
    if (const std::uint64_t total = sum(input_, field)) profile_.anomalies.push_back({kind, total, words});
  }
  void anomaly_of(const char* kind, std::uint64_t total, const char* words) {
    if (total != 0) profile_.anomalies.push_back({kind, total, words});
  }

 private:
  const BuildInput& input_;
  Profile& profile_;
};

void join_counters(Writer& out) {
  using C = JoinCounters;
  out.count("launches", &C::launches);
  out.count("launches_failed", &C::launches_failed);
  out.count("host_functions", &C::host_functions);
  out.count("executions", &C::executions);
  out.count("joined", &C::joined);
  out.count("launched_before_session", &C::launched_before);
  out.count("launch_record_lost", &C::launch_lost);
  out.count("pending", &C::pending);
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
}

void shim_counters(Writer& out) {
  using C = pillion_counters;
  out.count("shim_launches", &C::launches);
  out.count("shim_launches_failed", &C::launches_failed);
  out.count("shim_executions", &C::executions);
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
  out.count("records_unknown_to_shim", &C::records_unknown);
  out.count("records_skipped", &TargetQuality::records_skipped);
  out.count("records_bad", &TargetQuality::records_bad);
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

void anomalies(Writer& out, const BuildInput& input, std::uint64_t merged_stacks) {
  using J = JoinCounters;
  using C = pillion_counters;
  if (sum(input, &J::launches) > sum(input, &J::launches_failed) && sum(input, &J::executions) == 0 &&
      sum(input, &C::executions) == 0) {  // not even of a device that was not asked for
    out.anomaly("no_gpu_records", &J::launches, "launches were seen but not one GPU record");
  }
  out.anomaly_of("launches_dropped",
                 sum(input, &C::launches_dropped_busy) + sum(input, &C::launches_dropped_full),
                 "launch records lost in the rings: their executions stand under [launch record lost]");
  out.anomaly_of("executions_dropped",
                 sum(input, &C::executions_dropped_busy) + sum(input, &C::executions_dropped_full) +
                     sum(input, &C::cupti_dropped),
                 "GPU records lost: GPU time is missing");
  out.anomaly("launches_evicted", &J::evicted_unjoined, "launches left a full table before they ran");
  out.anomaly_of("invalid_stamps",
                 sum(input, &J::invalid_zero) + sum(input, &J::invalid_reversed) +
                     sum(input, &J::invalid_before_launch) + sum(input, &J::invalid_outside_session),
                 "GPU records with impossible times: counted as launches, their time left out");
  out.anomaly("cells_merged", &J::cells_merged,
              "more distinct samples than a window holds: merged into [other]");
  out.anomaly("records_bad", &TargetQuality::records_bad, "malformed records in the rings");
  out.anomaly_of("stacks_merged", merged_stacks,
                 "more distinct stacks than a profile shows: merged into [other]");
  for (const TargetInput& target : input.targets) {
    if (!target.quality.ended_early.empty()) {
      out.anomaly_of("ended_early", 1, target.quality.ended_early.c_str());
    }
  }
}

}  // namespace

void describe_quality(const BuildInput& input, std::uint64_t distinct_stacks, std::uint64_t merged_stacks,
                      Profile& profile) {
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
  out.value("stacks_distinct", distinct_stacks);
  out.value("stacks_merged", merged_stacks);
  shim_counters(out);
  shim_cost(out, input);
  out.value("clock_steps", input.quality.clock_steps);
  out.value("subscriber_conflicts", input.quality.subscriber_conflicts);
  out.value("other_sessions", input.quality.other_sessions);
  out.text("cupti_version",
           each(input, [](const auto& t) { return std::to_string(t.quality.cupti_version); }));
  out.text("driver_version",
           each(input, [](const auto& t) { return std::to_string(t.quality.driver_version); }));
  out.text("cupti_path", each(input, [](const auto& t) { return t.quality.cupti_path; }));
  anomalies(out, input, merged_stacks);
}

}  // namespace pillion::profile
