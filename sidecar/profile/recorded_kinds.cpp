// SPDX-License-Identifier: Apache-2.0
#include "profile/recorded_kinds.h"

#include <algorithm>
#include <array>
#include <string>
#include <string_view>

namespace pillion::profile {
namespace {

struct Need {
  std::string_view type;  // of the profile
  std::uint32_t kind;
  const char* anomaly;
  const char* meaning;
  const char* instead;  // how that shows in a profile of the type
};

constexpr const char* kWithoutSyncs = "a process was recorded without its synchronisation calls";

constexpr std::array kNeeds = {
    Need{"sync", PILLION_KIND_SYNC, "syncs_not_recorded", kWithoutSyncs, "its waits are missing"},
    Need{"idle", PILLION_KIND_SYNC, "syncs_not_recorded", kWithoutSyncs,
         "where its threads had waited, idle time is host-bound instead of synchronising"},
    Need{"idle", PILLION_KIND_KERNEL, "kernels_not_recorded", "a process was recorded without its kernels",
         "the time in which they ran is shown as idle"},
    Need{"idle", PILLION_KIND_MEMSET, "memsets_not_recorded", "a process was recorded without its memsets",
         "the time in which they ran is shown as idle"},
    Need{"idle", PILLION_KIND_MEMCPY, "copies_not_recorded", "a process was recorded without its copies",
         "idle time in which one was in flight has the cause of what came after it"},
    Need{"gpu", PILLION_KIND_CALLS, "calls_not_recorded",
         "a process was recorded without the duration of its launch calls",
         "launch_time, where the profile has it, does not count them"},
};

}  // namespace

bool any_recorded(const BuildInput& input, std::uint32_t kinds) {
  return input.targets.empty() ||
         std::any_of(input.targets.begin(), input.targets.end(), [kinds](const TargetInput& target) {
           return (target.quality.settings.kinds & kinds) == kinds;
         });
}

void note_unrecorded(const BuildInput& input, Profile& profile) {
  for (const TargetInput& target : input.targets) {
    const std::uint32_t kinds = target.quality.settings.kinds;
    for (const Need& need : kNeeds) {
      if (need.type != profile.type || (kinds & need.kind) != 0) continue;
      profile.anomalies.push_back(
          {need.anomaly, 1, need.meaning,
           "process " + std::to_string(target.pid) + ", kinds " + kinds_text(kinds) + ": " + need.instead});
    }
  }
}

}  // namespace pillion::profile
