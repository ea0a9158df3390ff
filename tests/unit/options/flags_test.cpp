// SPDX-License-Identifier: Apache-2.0
// Walks the flag table: what a person adds there is checked here without another line.
#include "flags.h"

#include <catch2/catch_test_macros.hpp>

#include <bit>
#include <set>
#include <string>

namespace pillion {
namespace {

TEST_CASE("every flag is classified exactly once for every mode") {
  for (const auto& flag : flags()) {
    for (unsigned mode = 0; mode < kModes; ++mode) {
      INFO("-" << flag.name << " for " << to_string(static_cast<Mode>(mode)));
      CHECK(times_classified(flag.applies, flag.refused, static_cast<Mode>(mode)) == 1);
    }
    CHECK((flag.applies & ~kAllModes) == 0);
    CHECK(flag.applies != 0);
  }
}

TEST_CASE("a flag that is classified nowhere or twice is noticed") {
  CHECK(times_classified(kServe, ModeReasons(kInstall, "why"), Mode::probe) == 0);
  CHECK(times_classified(kServe, ModeReasons(kServe, "why"), Mode::serve) == 2);
  CHECK(times_classified(0, ModeReasons(kServe, "why") + ModeReasons(kServe | kProbe, "too"), Mode::serve) ==
        2);
}

TEST_CASE("every flag has a name of its own, a help text, and a reason for each refusal") {
  std::set<std::string> names;
  for (const auto& flag : flags()) {
    INFO("-" << flag.name);
    CHECK(names.insert(flag.name).second);
    CHECK(*flag.help != '\0');
    CHECK(flag.boolean == (*flag.type == '\0'));
    for (const auto& refusal : flag.refused.all()) {
      CHECK(refusal.modes != 0);
      CHECK(*refusal.reason != '\0');
    }
    CHECK(find_flag(flag.name) == &flag);
  }
  for (const char* wanted : {"listen",          "health-listen",
                             "socket-dir",      "pid",
                             "force",           "wait-for-shim",
                             "drain-every",     "ring-budget",
                             "max-sessions",    "allow-uid",
                             "sample-budget",   "sample-mib",
                             "stack-bytes",     "events-rings",
                             "events-ring-kib", "stacks-rings",
                             "stacks-ring-kib", "linger",
                             "kinds",           "lease",
                             "finalize",        "exit-with-workload",
                             "insecure",        "log-level",
                             "duration",        "o",
                             "format",          "type",
                             "cupti-dir",       "url",
                             "python",          "listen-mode",
                             "token-file",      "allow-host"}) {
    INFO(wanted);
    CHECK(names.count(wanted) == 1);
  }
}

TEST_CASE("every default is accepted by its own flag") {
  for (const auto& flag : flags()) {
    if (*flag.initial == '\0') continue;
    Options options;
    INFO("-" << flag.name << " " << flag.initial);
    CHECK(flag.set(options, flag.initial));
  }
}

TEST_CASE("the help of a mode names the flags that apply and no other") {
  for (unsigned mode = 0; mode < kModes; ++mode) {
    const auto text = flags_help(1u << mode);
    for (const auto& flag : flags()) {
      const bool applies = (flag.applies >> mode) & 1u;
      INFO("-" << flag.name << " for " << to_string(static_cast<Mode>(mode)));
      CHECK((text.find(std::string("  -") + flag.name + (flag.boolean ? "\n" : " ")) != std::string::npos) ==
            applies);
    }
  }
}

}  // namespace
}  // namespace pillion
