// SPDX-License-Identifier: Apache-2.0
#include "profile/sync_builder.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "profile/api_names.h"
#include "profile/quality.h"
#include "profile/sample_labels.h"
#include "profile/stack_builder.h"
#include "profile/window_description.h"

namespace pillion::profile {
namespace {

class SyncBuilder {
 public:
  SyncBuilder(const BuildInput& input, FrameResolver& resolver)
      : input_(input),
        texts_(profile_.texts),
        stacks_(profile_, texts_, resolver, main_program(input)),
        labels_(texts_) {}

  Profile run();

 private:
  struct Row {
    Sample sample;
    bool open = false;
  };
  void add(const TargetInput& target, const SyncSample& sync);
  [[nodiscard]] std::uint64_t merge_small();
  void rank_calls();

  // Where a call stands: as the launches of that attribution do.
  static JoinedSample place_of(const SyncSample& sync) {
    JoinedSample place;
    place.tid = sync.tid;
    place.attribution = sync.attribution;
    place.stack = sync.stack;
    return place;
  }

  const BuildInput& input_;
  Profile profile_;
  TextTable texts_;
  StackBuilder stacks_;
  SampleLabels labels_;
  std::vector<Row> rows_;
  std::map<std::uint32_t, std::array<std::int64_t, kValues>> by_call_;  // by location
};

void SyncBuilder::add(const TargetInput& target, const SyncSample& sync) {
  const JoinedSample place = place_of(sync);
  Sample out;
  out.locations.push_back(stacks_.pseudo(api_name(sync.cbid)));
  const auto& frames = stacks_.frames(stacks_.of_launch(target, place));
  out.locations.insert(out.locations.end(), frames.begin(), frames.end());
  labels_.process(out, target);
  if (sync.attribution != Attribution::other) {
    labels_.thread(out, target, sync.tid);
    if (sync.context != 0) labels_.number(out, "context", sync.context);
  }
  labels_.found(out, target, place);
  if (sync.open) labels_.text(out, "open", "yes");
  out.values[kSyncTimeNs] = static_cast<std::int64_t>(sync.ns);
  out.values[kSyncCalls] = static_cast<std::int64_t>(sync.calls);
  auto& total = by_call_[out.locations.front()];
  for (std::size_t i = 0; i < kSyncValues; ++i) total[i] += out.values[i];
  rows_.push_back({std::move(out), sync.open});
}

// Keeps the samples with the most time, one place left for [other] of each call. Returns how many were
// merged.
std::uint64_t SyncBuilder::merge_small() {
  std::stable_sort(rows_.begin(), rows_.end(), [](const Row& a, const Row& b) {
    return std::tie(b.sample.values[kSyncTimeNs], b.sample.values[kSyncCalls]) <
           std::tie(a.sample.values[kSyncTimeNs], a.sample.values[kSyncCalls]);
  });
  const std::size_t keep =
      rows_.size() <= input_.stacks_max ? rows_.size() : std::max<std::size_t>(input_.stacks_max, 1) - 1;
  std::map<std::pair<std::uint32_t, bool>, Sample> merged;  // by the call's location, and whether it goes on
  for (std::size_t i = keep; i < rows_.size(); ++i) {
    const std::uint32_t call = rows_[i].sample.locations.front();
    Sample& other = merged[{call, rows_[i].open}];
    if (other.locations.empty()) {
      other.locations = {call, stacks_.pseudo("[other]")};
      labels_.text(other, "attribution", attribution_name(Attribution::other));
      if (rows_[i].open) labels_.text(other, "open", "yes");
    }
    for (std::size_t v = 0; v < kSyncValues; ++v) other.values[v] += rows_[i].sample.values[v];
  }
  for (std::size_t i = 0; i < keep; ++i) profile_.samples.push_back(std::move(rows_[i].sample));
  for (auto& [call, other] : merged) profile_.samples.push_back(std::move(other));
  return rows_.size() - keep;
}

void SyncBuilder::rank_calls() {
  for (const auto& [location, values] : by_call_) {
    const Function& function =
        profile_.functions[profile_.locations[location - 1].lines.front().function - 1];
    profile_.kernels.push_back({function.name, function.system_name, values});
  }
  std::stable_sort(profile_.kernels.begin(), profile_.kernels.end(), [](const Kernel& a, const Kernel& b) {
    return b.values[kSyncTimeNs] < a.values[kSyncTimeNs];
  });
}

Profile SyncBuilder::run() {
  profile_.type = "sync";
  profile_.value_types = kSyncValueTypes;
  describe_window(input_, profile_);
  for (const TargetInput& target : input_.targets) {
    if (target.data == nullptr) continue;
    for (const SyncSample& sync : target.data->syncs) add(target, sync);
  }
  const std::size_t distinct = rows_.size();
  const std::uint64_t merged = merge_small();
  rank_calls();
  describe_quality(input_, {distinct, merged, stacks_.python_unnamed()}, profile_);
  return std::move(profile_);
}

}  // namespace

Profile build_sync(const BuildInput& input, FrameResolver& resolver) {
  return SyncBuilder(input, resolver).run();
}

}  // namespace pillion::profile
