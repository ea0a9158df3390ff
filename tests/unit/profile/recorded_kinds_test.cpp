// SPDX-License-Identifier: Apache-2.0
// Profiles of processes that were recorded without what the profile is made of: they say so.
#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <string>
#include <vector>

#include "idle_example.h"
#include "profile/sync_builder.h"

namespace pillion::profile {
namespace {

std::uint32_t all_but(std::uint32_t kind) { return PILLION_KIND_ALL & ~kind; }

// Of what some process was recorded without.
std::vector<std::string> unrecorded(const Profile& profile) {
  std::vector<std::string> kinds;
  for (const Anomaly& anomaly : profile.anomalies) {
    if (anomaly.kind.ends_with("_not_recorded")) kinds.push_back(anomaly.kind + ": " + anomaly.detail);
  }
  return kinds;
}

TEST_CASE("an idle profile says what it was made without") {
  IdleExample e;
  CHECK(unrecorded(e.make_idle()).empty());
  struct Row {
    std::uint32_t kind;
    const char* says;
    const char* instead;
  };
  for (const Row& row : {Row{PILLION_KIND_SYNC, "syncs_not_recorded", "host-bound instead of synchronising"},
                         Row{PILLION_KIND_KERNEL, "kernels_not_recorded", "is shown as idle"},
                         Row{PILLION_KIND_MEMSET, "memsets_not_recorded", "is shown as idle"},
                         Row{PILLION_KIND_MEMCPY, "copies_not_recorded", "cause of what came after"}}) {
    e.input.targets.at(0).quality.settings.kinds = all_but(row.kind);
    const auto said = unrecorded(e.make_idle());
    INFO(row.says);
    REQUIRE(said.size() == 1);
    CHECK(said[0].starts_with(row.says));
    CHECK(said[0].find("process 77, kinds ") != std::string::npos);
    CHECK(said[0].find(row.instead) != std::string::npos);
  }
}

TEST_CASE("a profile of synchronisation calls of a process without them says so") {
  Example e;
  e.input.targets.at(0).quality.settings.kinds = all_but(PILLION_KIND_SYNC);
  const auto said = unrecorded(build_sync(e.input, e.resolver));
  REQUIRE(said.size() == 1);
  CHECK(said[0].starts_with("syncs_not_recorded"));
  CHECK(unrecorded(e.make()).empty());
}

TEST_CASE("launch_time is left out where no process was recorded with it, and said where one was not") {
  Example a;
  CHECK(a.make().value_types.size() == kValues);
  CHECK(unrecorded(a.make()).empty());
  a.input.targets.at(0).quality.settings.kinds = all_but(PILLION_KIND_CALLS);
  const Profile without = a.make();
  REQUIRE(without.value_types.size() == kLaunchTimeNs);
  CHECK(std::string(without.value_types.back().type) == "copied");
  REQUIRE(unrecorded(without).size() == 1);
  CHECK(unrecorded(without)[0].starts_with("calls_not_recorded"));
  Example b;
  b.input.targets.at(0).id = 2;
  a.input.targets.push_back(b.input.targets.at(0));
  CHECK(a.make().value_types.size() == kValues);
  CHECK(unrecorded(a.make()).size() == 1);
  CHECK(build({}, a.resolver).value_types.size() == kValues);
}

}  // namespace
}  // namespace pillion::profile
