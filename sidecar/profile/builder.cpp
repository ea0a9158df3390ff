// SPDX-License-Identifier: Apache-2.0
#include "profile/builder.h"

#include <algorithm>
#include <limits>
#include <map>
#include <numeric>
#include <tuple>

#include "profile/api_names.h"
#include "profile/quality.h"
#include "profile/recorded_kinds.h"
#include "profile/sample_labels.h"
#include "profile/stack_builder.h"
#include "profile/window_description.h"

namespace pillion::profile {
namespace {

std::int64_t clamp(std::uint64_t value) {
  constexpr auto kMax = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
  return static_cast<std::int64_t>(std::min(value, kMax));
}

std::array<std::int64_t, kValues> values_of(const JoinedSample& s) {
  return {clamp(s.gpu_ns), clamp(s.count), clamp(s.queue_ns), clamp(s.bytes), clamp(s.launch_ns)};
}

void add(std::array<std::int64_t, kValues>& to, const std::array<std::int64_t, kValues>& more) {
  for (std::size_t i = 0; i < kValues; ++i) to[i] += more[i];
}

class Builder {
 public:
  Builder(const BuildInput& input, FrameResolver& resolver)
      : input_(input),
        texts_(profile_.texts),
        stacks_(profile_, texts_, resolver, main_program(input)),
        labels_(texts_) {}

  Profile run();

 private:
  // A distinct stack: leaf kernel, API call (0: none), list of the application's frames.
  using Group = std::tuple<std::uint32_t, std::uint32_t, std::uint32_t>;
  struct GroupTotal {
    Group group;
    std::uint64_t gpu_ns = 0;
    std::uint64_t count = 0;
    bool merged = false;
  };
  struct Row {
    const TargetInput* target;
    const JoinedSample* sample;
    std::size_t group;
  };

  void add_rows(const TargetInput& target);
  [[nodiscard]] std::uint32_t leaf(const TargetInput& target, const JoinedSample& sample);
  [[nodiscard]] std::uint64_t merge_small_groups();
  void emit(const Row& row);
  void emit_merged();
  void rank_kernels();
  void add_latencies(const TargetInput& target);

  const BuildInput& input_;
  Profile profile_;
  TextTable texts_;
  StackBuilder stacks_;
  SampleLabels labels_;
  std::map<std::pair<SessionId, std::uint32_t>, std::uint32_t> kernel_leaves_;  // by name id, a session's own
  std::map<Group, std::size_t> group_ids_;
  std::vector<GroupTotal> groups_;
  std::vector<Row> rows_;
  std::map<std::uint32_t, std::array<std::int64_t, kValues>> by_leaf_;
  std::map<std::pair<const TargetInput*, std::uint32_t>, std::array<std::int64_t, kValues>>
      merged_;  // by device
};

std::uint32_t Builder::leaf(const TargetInput& target, const JoinedSample& sample) {
  switch (sample.kind) {
    case ExecutionKind::copy:
      return stacks_.pseudo(copy_name(sample.copy_kind));
    case ExecutionKind::set:
      return stacks_.pseudo("[memset]");
    case ExecutionKind::kernel:
      break;
  }
  if (sample.attribution == Attribution::other && sample.name == 0) return stacks_.pseudo("[other]");
  const auto [found, made] = kernel_leaves_.try_emplace({target.session, sample.name}, 0);
  if (made) {
    const auto name = target.data->names.find(sample.name);
    const bool known = name != target.data->names.end() && !name->second.empty();
    found->second = known ? stacks_.kernel(target.id, name->second) : stacks_.pseudo("[unknown kernel]");
  }
  return found->second;
}

void Builder::add_rows(const TargetInput& target) {
  for (const JoinedSample& sample : target.data->samples) {
    const std::uint32_t api = sample.cbid == 0 ? 0 : stacks_.pseudo(api_name(sample.cbid));
    const Group group{leaf(target, sample), api, stacks_.of_launch(target, sample)};
    const auto [found, made] = group_ids_.try_emplace(group, groups_.size());
    if (made) groups_.push_back({group});
    GroupTotal& total = groups_[found->second];
    total.gpu_ns += sample.gpu_ns;
    total.count += sample.count;
    rows_.push_back({&target, &sample, found->second});
    add(by_leaf_[std::get<0>(group)], values_of(sample));
  }
}

// Keeps the stacks with the most GPU time, one place left for [other]. Returns how many were merged.
std::uint64_t Builder::merge_small_groups() {
  if (groups_.size() <= input_.stacks_max) return 0;
  std::vector<std::size_t> order(groups_.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  const std::size_t keep = std::max<std::size_t>(input_.stacks_max, 1) - 1;
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return std::tie(groups_[b].gpu_ns, groups_[b].count) < std::tie(groups_[a].gpu_ns, groups_[a].count);
  });
  for (std::size_t i = keep; i < order.size(); ++i) groups_[order[i]].merged = true;
  return groups_.size() - keep;
}

void Builder::emit(const Row& row) {
  const GroupTotal& total = groups_[row.group];
  const JoinedSample& sample = *row.sample;
  if (total.merged) {
    add(merged_[{row.target, sample.device}], values_of(sample));
    return;
  }
  Sample out;
  const auto [leaf_frame, api, list] = total.group;
  out.locations.push_back(leaf_frame);
  if (api != 0) out.locations.push_back(api);
  const auto& frames = stacks_.frames(list);
  out.locations.insert(out.locations.end(), frames.begin(), frames.end());
  labels_.process(out, *row.target);
  if (sample.attribution != Attribution::other) {
    labels_.device(out, *row.target, sample.device);
    labels_.launch(out, *row.target, sample);
  } else {
    labels_.text(out, "attribution", attribution_name(sample.attribution));
  }
  out.values = values_of(sample);
  profile_.samples.push_back(std::move(out));
}

void Builder::emit_merged() {
  for (const auto& [where, values] : merged_) {
    Sample out;
    out.locations.push_back(stacks_.pseudo("[other]"));
    labels_.process(out, *where.first);
    labels_.device(out, *where.first, where.second);
    labels_.text(out, "attribution", attribution_name(Attribution::other));
    out.values = values;
    profile_.samples.push_back(std::move(out));
  }
}

void Builder::rank_kernels() {
  for (const auto& [location, values] : by_leaf_) {
    const Function& function =
        profile_.functions[profile_.locations[location - 1].lines.front().function - 1];
    profile_.kernels.push_back({function.name, function.system_name, values});
  }
  std::stable_sort(profile_.kernels.begin(), profile_.kernels.end(), [](const Kernel& a, const Kernel& b) {
    return std::tie(b.values[kGpuTimeNs], b.values[kLaunches]) <
           std::tie(a.values[kGpuTimeNs], a.values[kLaunches]);
  });
}

void Builder::add_latencies(const TargetInput& target) {
  for (const LatencyRow& row : target.data->latencies) {
    JoinedSample what;
    what.kind = row.kind;
    what.name = row.name;
    what.copy_kind = row.copy_kind;
    if (row.merged) what.attribution = Attribution::other;
    const Location& location = profile_.locations[leaf(target, what) - 1];
    const Function& function = profile_.functions[location.lines.front().function - 1];
    profile_.latencies.push_back({target.pid, row.device, row.context, row.stream, function.name,
                                  function.system_name, row.merged, row.queue, row.call});
  }
}

Profile Builder::run() {
  describe_window(input_, profile_);
  // Zeros would be read as calls that took no time. It is the last of the types, so what stays keeps its
  // place.
  static_assert(kLaunchTimeNs == kValues - 1);
  if (!any_recorded(input_, PILLION_KIND_CALLS))
    profile_.value_types = profile_.value_types.first(kLaunchTimeNs);
  for (const TargetInput& target : input_.targets) {
    if (target.data != nullptr) add_rows(target);
  }
  const std::uint64_t merged = merge_small_groups();
  for (const Row& row : rows_) emit(row);
  emit_merged();
  std::stable_sort(profile_.samples.begin(), profile_.samples.end(), [](const Sample& a, const Sample& b) {
    return a.values[kGpuTimeNs] > b.values[kGpuTimeNs];
  });
  rank_kernels();
  for (const TargetInput& target : input_.targets) {
    if (target.data != nullptr) add_latencies(target);
  }
  std::stable_sort(profile_.latencies.begin(), profile_.latencies.end(),
                   [](const Latency& a, const Latency& b) { return b.queue.sum_ns() < a.queue.sum_ns(); });
  describe_quality(input_, {groups_.size(), merged, stacks_.python_unnamed()}, profile_);
  return std::move(profile_);
}

}  // namespace

Profile build(const BuildInput& input, FrameResolver& resolver) { return Builder(input, resolver).run(); }

}  // namespace pillion::profile
