// SPDX-License-Identifier: Apache-2.0
#include "profile/idle_builder.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <numeric>
#include <string>
#include <tuple>
#include <vector>

#include "profile/api_names.h"
#include "profile/quality.h"
#include "profile/sample_labels.h"
#include "profile/stack_builder.h"
#include "profile/window_description.h"

namespace pillion::profile {
namespace {

const char* edge_name(IdleEdge edge) {
  switch (edge) {
    case IdleEdge::none:
      return "";
    case IdleEdge::begin:
      return "begin";
    case IdleEdge::end:
      return "end";
    case IdleEdge::both:
      return "both";
  }
  return "";
}

const char* edge_frame(IdleEdge edge) {
  switch (edge) {
    case IdleEdge::none:
      return "";
    case IdleEdge::begin:
      return "[gap cut by the window's beginning]";
    case IdleEdge::end:
      return "[gap cut by the window's end]";
    case IdleEdge::both:
      return "[gap longer than the window]";
  }
  return "";
}

double share(std::uint64_t part, std::uint64_t whole) {
  return whole == 0 ? 0 : static_cast<double>(part) / static_cast<double>(whole);
}

class IdleBuilder {
 public:
  IdleBuilder(const BuildInput& input, const IdleData& idle, FrameResolver& resolver)
      : input_(input),
        idle_(idle),
        texts_(profile_.texts),
        stacks_(profile_, texts_, resolver, main_program(input)),
        labels_(texts_) {
    for (const TargetInput& target : input.targets) {
      if (target.data != nullptr) targets_[target.session] = &target;
    }
  }

  Profile run();

 private:
  // A distinct stack: leaf, edge (0: none), whether its launch is pending (0: no), API call (0: none), list
  // of the application's frames.
  using Group = std::tuple<std::uint32_t, std::uint32_t, std::uint32_t, std::uint32_t, std::uint32_t>;
  struct GroupTotal {
    Group group;
    std::uint64_t ns = 0;
    bool merged = false;
  };

  [[nodiscard]] const TargetInput* target(SessionId session) const {
    const auto found = targets_.find(session);
    return found == targets_.end() ? nullptr : found->second;
  }
  [[nodiscard]] Group group_of(const IdleSample& sample);
  void group_rows();
  [[nodiscard]] std::uint64_t merge_small_groups();
  void emit(const IdleSample& sample, const GroupTotal& total);
  void emit_merged();
  void describe_devices();

  const BuildInput& input_;
  const IdleData& idle_;
  Profile profile_;
  TextTable texts_;
  StackBuilder stacks_;
  SampleLabels labels_;
  std::map<SessionId, const TargetInput*> targets_;
  std::map<Group, std::size_t> group_ids_;
  std::vector<GroupTotal> groups_;
  std::vector<std::size_t> group_of_row_;
  struct Merged {
    std::int64_t ns = 0;
    std::int64_t gaps = 0;
  };
  std::map<std::tuple<const TargetInput*, std::uint32_t, IdleCause>, Merged> merged_;
};

IdleBuilder::Group IdleBuilder::group_of(const IdleSample& sample) {
  const JoinedSample& launch = sample.launch;
  const std::string cause = kIdleCauseNames[static_cast<std::size_t>(sample.cause)];
  const std::uint32_t leaf = stacks_.pseudo("idle: " + cause);
  const std::uint32_t edge = sample.edge == IdleEdge::none ? 0 : stacks_.pseudo(edge_frame(sample.edge));
  if (!sample.ended && !sample.pending)
    return {leaf, edge, 0, 0, stacks_.pseudo_stack("[nothing started before the window's end]")};
  const TargetInput* of = target(sample.session);
  const std::uint32_t api = launch.cbid == 0 ? 0 : stacks_.pseudo(api_name(launch.cbid));
  const std::uint32_t list =
      of != nullptr ? stacks_.of_launch(*of, launch) : stacks_.pseudo_stack("[unsampled]");
  const std::uint32_t pending =
      sample.pending ? stacks_.pseudo("[launched, its GPU record had not come: it may have run]") : 0;
  return {leaf, edge, pending, api, list};
}

void IdleBuilder::group_rows() {
  group_of_row_.reserve(idle_.samples.size());
  for (const IdleSample& sample : idle_.samples) {
    const Group group = group_of(sample);
    const auto [found, made] = group_ids_.try_emplace(group, groups_.size());
    if (made) groups_.push_back({group});
    groups_[found->second].ns += sample.ns;
    group_of_row_.push_back(found->second);
  }
}

// Keeps the stacks with the most idle time, one place left for [other]. Returns how many were merged.
std::uint64_t IdleBuilder::merge_small_groups() {
  if (groups_.size() <= input_.stacks_max) return 0;
  std::vector<std::size_t> order(groups_.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return groups_[b].ns < groups_[a].ns; });
  const std::size_t keep = std::max<std::size_t>(input_.stacks_max, 1) - 1;
  for (std::size_t i = keep; i < order.size(); ++i) groups_[order[i]].merged = true;
  return groups_.size() - keep;
}

void IdleBuilder::emit(const IdleSample& sample, const GroupTotal& total) {
  const TargetInput* of = target(sample.session);
  const auto ns = static_cast<std::int64_t>(sample.ns);
  const auto gaps = static_cast<std::int64_t>(sample.gaps);
  if (total.merged) {
    Merged& into = merged_[{of, sample.launch.device, sample.cause}];
    into.ns += ns;
    into.gaps += gaps;
    return;
  }
  Sample out;
  const auto [leaf, edge, pending, api, list] = total.group;
  for (const std::uint32_t frame : {leaf, edge, pending, api}) {
    if (frame != 0) out.locations.push_back(frame);
  }
  const auto& frames = stacks_.frames(list);
  out.locations.insert(out.locations.end(), frames.begin(), frames.end());
  labels_.text(out, "cause", kIdleCauseNames[static_cast<std::size_t>(sample.cause)]);
  labels_.text(out, "edge", edge_name(sample.edge));
  if (of != nullptr) {
    labels_.process(out, *of);
    labels_.device(out, *of, sample.launch.device);
    if (sample.ended && sample.launch.attribution != Attribution::other) {
      labels_.launch(out, *of, sample.launch);
    } else if (sample.pending) {
      labels_.thread(out, *of, sample.launch.tid);
      labels_.found(out, *of, sample.launch);
    } else if (sample.ended) {
      labels_.text(out, "attribution", attribution_name(sample.launch.attribution));
    }
  }
  out.values[kIdleTimeNs] = ns;
  out.values[kIdleGaps] = gaps;
  profile_.samples.push_back(std::move(out));
}

void IdleBuilder::emit_merged() {
  for (const auto& [where, merged] : merged_) {
    const auto [of, device, cause] = where;
    Sample out;
    out.locations.push_back(stacks_.pseudo("[other]"));
    labels_.text(out, "cause", kIdleCauseNames[static_cast<std::size_t>(cause)]);
    if (of != nullptr) {
      labels_.process(out, *of);
      labels_.device(out, *of, device);
    }
    labels_.text(out, "attribution", attribution_name(Attribution::other));
    out.values[kIdleTimeNs] = merged.ns;
    out.values[kIdleGaps] = merged.gaps;
    profile_.samples.push_back(std::move(out));
  }
}

void IdleBuilder::describe_devices() {
  for (const DeviceUse& use : idle_.devices) {
    DeviceIdle out;
    for (const DeviceUse::Member& member : use.members) {
      const TargetInput* of = target(member.session);
      if (of == nullptr) continue;
      const DeviceIdle::User user{of->pid, member.device};
      if (std::find(out.users.begin(), out.users.end(), user) == out.users.end()) out.users.push_back(user);
      const auto known = of->data->devices.find(member.device);
      if (known != of->data->devices.end()) out.uuid = uuid_text(known->second);
    }
    out.window_ns = use.window_ns;
    out.busy_ns = use.busy_ns;
    out.idle_ns = std::accumulate(use.idle_ns.begin(), use.idle_ns.end(), std::uint64_t{0});
    out.busy_share = share(use.busy_ns, use.window_ns);
    out.kernel_concurrency = share(use.kernel_ns, use.kernel_busy_ns);
    out.by_cause = use.idle_ns;
    profile_.device_idle.push_back(std::move(out));
  }
}

Profile IdleBuilder::run() {
  describe_window(input_, profile_);
  profile_.type = "idle";
  profile_.value_types = kIdleValueTypes;
  describe_devices();
  group_rows();
  const std::uint64_t merged = merge_small_groups();
  for (std::size_t i = 0; i < idle_.samples.size(); ++i) emit(idle_.samples[i], groups_[group_of_row_[i]]);
  emit_merged();
  std::stable_sort(profile_.samples.begin(), profile_.samples.end(), [](const Sample& a, const Sample& b) {
    return a.values[kIdleTimeNs] > b.values[kIdleTimeNs];
  });
  describe_quality(input_, {groups_.size(), merged, stacks_.python_unnamed()}, profile_, &idle_.counters);
  return std::move(profile_);
}

}  // namespace

Profile build_idle(const BuildInput& input, const IdleData& idle, FrameResolver& resolver) {
  return IdleBuilder(input, idle, resolver).run();
}

}  // namespace pillion::profile
