// SPDX-License-Identifier: Apache-2.0
#include "profile/why_empty.h"

#include <catch2/catch_test_macros.hpp>
#include <string>

#include "idle_example.h"
#include "profile/sync_builder.h"

namespace pillion::profile {
namespace {

struct Nothing : IdleExample {
  Nothing() {
    data.samples.clear();
    data.counters = {};
    idle = {};
  }
  [[nodiscard]] std::string why(const Profile& profile) const { return why_empty(input, profile); }
};

TEST_CASE("an empty profile of each type says what did not happen") {
  Nothing e;
  CHECK(e.why(e.make()) == "no kernel, copy or memset ended in the window");
  CHECK(e.why(build_sync(e.input, e.resolver)) ==
        "no thread was in a call that waits for the GPU in the window");
  CHECK(e.why(e.make_idle()) == "no recorded process had a context on a device in the window");
  e.idle.devices.resize(1);
  CHECK(e.why(e.make_idle()) == "the devices were busy all the time in the window");
  e.input.targets.clear();
  CHECK(e.why(e.make()) == "no process that uses a GPU was recorded in the window");
}

TEST_CASE("a cause that is known is named") {
  Nothing e;
  e.data.counters.pending_earlier = 2;
  CHECK(e.why(e.make()).find("; launches whose GPU record had not come") != std::string::npos);
  e.data.counters = {};
  e.data.counters.launches = 3;
  CHECK(e.why(e.make()).find("libcupti does not fit") != std::string::npos);
  e.data.counters = {};
  e.input.targets.at(0).quality.settings.kinds = PILLION_KIND_KERNEL;
  CHECK(e.why(build_sync(e.input, e.resolver)).find("kinds kernel: its waits are missing") !=
        std::string::npos);
  CHECK(e.why(e.make()).find("not_recorded") == std::string::npos);
}

TEST_CASE("samples without any time are not called nothing") {
  IdleExample e;
  CHECK(why_empty(e.input, e.make()) == "no time is known of the 7 samples");
}

}  // namespace
}  // namespace pillion::profile
