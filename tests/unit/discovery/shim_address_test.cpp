// SPDX-License-Identifier: Apache-2.0
#include "discovery/shim_address.h"

#include <catch2/catch_test_macros.hpp>

using namespace pillion::discovery;

TEST_CASE("a socket's name says who it is") {
  const auto address = parse_socket_name("/run/pillion", "pillion-4026531836-17-998877.sock");
  REQUIRE(address.has_value());
  CHECK(address->path == "/run/pillion/pillion-4026531836-17-998877.sock");
  CHECK(address->pid_namespace == 4026531836u);
  CHECK(address->pid == 17);
  CHECK(address->start_time == 998877);
}

TEST_CASE("names that are not a shim's") {
  for (const char* name : {"", "pillion-.sock", "pillion-1-2-3", "pillion-1-2-3.sock.bak", "pillion-1-2.sock",
                           "pillion-1-2-3-4.sock", "pillion--1-2-3.sock", "pillion-1--2-3.sock",
                           "pillion-+1-2-3.sock", "pillion-01-2-3.sock", "pillion-0x1-2-3.sock",
                           "pillion-1-4294967296-3.sock", "pillion-18446744073709551616-2-3.sock",
                           "pillion-1-2- 3.sock", "Pillion-1-2-3.sock", "pillion-1-0-3.sock"}) {
    INFO(name);
    CHECK_FALSE(parse_socket_name("/d", name).has_value());
  }
}

TEST_CASE("-pid means the process as seen from here; the name counts only where that is unknown") {
  const ShimAddress address{"/d/s", 1, 40, 3};
  CHECK(TargetSelection().matches(address, 7));
  const TargetSelection selection({40});
  CHECK(selection.matches(address, 40));
  CHECK(selection.matches(address, 0));
  CHECK_FALSE(selection.matches(address, 7));
  CHECK(TargetSelection({7, 8}).matches(address, 7));
  CHECK_FALSE(TargetSelection({7}).matches(address, 0));
}
