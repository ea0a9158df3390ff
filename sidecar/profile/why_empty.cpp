// SPDX-License-Identifier: Apache-2.0
#include "profile/why_empty.h"

#include <algorithm>
#include <string_view>

#include "profile/recorded_kinds.h"

namespace pillion::profile {
namespace {

// Anomalies that leave a profile empty by themselves.
bool empties(const Anomaly& anomaly, std::string_view type) {
  if (anomaly.kind == "syncs_not_recorded") return type == "sync";
  return anomaly.kind == "no_gpu_records" || anomaly.kind == "launches_pending";
}

std::string nothing_happened(const BuildInput& input, const Profile& profile) {
  const std::string_view type = profile.type;
  if (type == "sync") return "no thread was in a call that waits for the GPU";
  if (type == "idle") {
    return profile.device_idle.empty() ? "no recorded process had a context on a device"
                                       : "the devices were busy all the time";
  }
  constexpr std::uint32_t kAll = PILLION_KIND_KERNEL | PILLION_KIND_MEMCPY | PILLION_KIND_MEMSET;
  if (any_recorded(input, kAll)) return "no kernel, copy or memset ended";
  return "nothing of the kinds that are recorded (" +
         kinds_text(input.targets.front().quality.settings.kinds) + ") ended";
}

}  // namespace

std::string why_empty(const BuildInput& input, const Profile& profile) {
  if (input.targets.empty()) return "no process that uses a GPU was recorded in the window";
  const auto cause = std::find_if(profile.anomalies.begin(), profile.anomalies.end(),
                                  [&](const Anomaly& anomaly) { return empties(anomaly, profile.type); });
  const std::string nothing =
      profile.samples.empty()
          ? nothing_happened(input, profile) + " in the window"
          : "no time is known of the " + std::to_string(profile.samples.size()) + " samples";
  if (cause == profile.anomalies.end()) return nothing;
  return nothing + "; " + cause->meaning + (cause->detail.empty() ? "" : ": " + cause->detail);
}

}  // namespace pillion::profile
