// SPDX-License-Identifier: Apache-2.0
#include "profile/window_description.h"

#include <cstddef>
#include <map>

#include "profile/sample_labels.h"
#include "profile/text.h"

namespace pillion::profile {
namespace {

PodIdentity clean(const PodIdentity& pod) {
  return {clean_text(pod.pod), clean_text(pod.name_space), clean_text(pod.node), clean_text(pod.container)};
}

void describe_targets(const BuildInput& input, Profile& profile) {
  std::map<std::uint32_t, std::size_t> by_pid;
  for (const TargetInput& target : input.targets) {
    const auto [found, made] = by_pid.try_emplace(target.pid, profile.processes.size());
    if (made) {
      profile.processes.push_back(
          {target.pid, clean_text(target.comm), clean_text(target.exe), {}, clean(target.pod)});
    }
    profile.processes[found->second].targets.push_back(target.id);
    profile.settings.push_back({target.pid, target.id, target.quality.settings});
    if (target.data == nullptr || !made) continue;
    for (const auto& [number, device] : target.data->devices) {
      profile.devices.push_back({target.pid, number, uuid_text(device), clean_text(device.name),
                                 device.compute_major, device.compute_minor, device.multiprocessors,
                                 device.mig});
    }
  }
}

}  // namespace

void describe_window(const BuildInput& input, Profile& profile) {
  profile.start_wall_ns = input.start_wall_ns;
  profile.t0_ns = input.t0_ns;
  profile.t1_ns = input.t1_ns;
  profile.anomalies = input.anomalies;
  describe_targets(input, profile);
}

std::string_view main_program(const BuildInput& input) {
  if (input.targets.empty()) return {};
  const TargetInput& target = input.targets.front();
  return target.exe.empty() ? std::string_view(target.comm) : std::string_view(target.exe);
}

}  // namespace pillion::profile
