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
  std::map<std::uint32_t, std::array<std::int64_t, kValues>> by_call_;  // by location
};

void SyncBuilder::add(const TargetInput& target, const SyncSample& sync) {
  const JoinedSample place = place_of(sync);
  Sample out;
  out.locations.push_back(stacks_.pseudo(api_name(sync.cbid)));
  const auto& frames = stacks_.frames(stacks_.of_launch(target.id, target.stacks, place));
  out.locations.insert(out.locations.end(), frames.begin(), frames.end());
  labels_.process(out, target);
  if (sync.attribution != Attribution::other) {
    labels_.thread(out, target, sync.tid);
    if (sync.context != 0) labels_.number(out, "context", sync.context);
  }
  labels_.found(out, target, place);
  if (sync.open != 0) labels_.text(out, "open", "yes");
  out.values[kSyncTimeNs] = static_cast<std::int64_t>(sync.ns);
  out.values[kSyncCalls] = static_cast<std::int64_t>(sync.calls);
  auto& total = by_call_[out.locations.front()];
  for (std::size_t i = 0; i < kSyncValues; ++i) total[i] += out.values[i];
  profile_.samples.push_back(std::move(out));
}

// Keeps the samples with the most time, one place left for [other] of each call. Returns how many were
// merged.
std::uint64_t SyncBuilder::merge_small() {
  auto& samples = profile_.samples;
  std::stable_sort(samples.begin(), samples.end(), [](const Sample& a, const Sample& b) {
    return std::tie(b.values[kSyncTimeNs], b.values[kSyncCalls]) <
           std::tie(a.values[kSyncTimeNs], a.values[kSyncCalls]);
  });
  if (samples.size() <= input_.stacks_max) return 0;
  const std::size_t keep = std::max<std::size_t>(input_.stacks_max, 1) - 1;
  std::map<std::uint32_t, Sample> merged;  // by the call's location
  for (std::size_t i = keep; i < samples.size(); ++i) {
    const std::uint32_t call = samples[i].locations.front();
    Sample& other = merged[call];
    if (other.locations.empty()) {
      other.locations = {call, stacks_.pseudo("[other]")};
      labels_.text(other, "attribution", attribution_name(Attribution::other));
    }
    for (std::size_t v = 0; v < kSyncValues; ++v) other.values[v] += samples[i].values[v];
  }
  const std::uint64_t gone = samples.size() - keep;
  samples.resize(keep);
  for (auto& [call, other] : merged) samples.push_back(std::move(other));
  return gone;
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
    if ((target.quality.settings.kinds & PILLION_KIND_SYNC) == 0) {
      profile_.anomalies.push_back({"syncs_not_recorded", 1,
                                    "a process was recorded without its synchronisation calls",
                                    "kinds " + kinds_text(target.quality.settings.kinds)});
    }
    if (target.data == nullptr) continue;
    for (const SyncSample& sync : target.data->syncs) add(target, sync);
  }
  const std::size_t distinct = profile_.samples.size();
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
