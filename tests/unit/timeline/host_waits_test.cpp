// SPDX-License-Identifier: Apache-2.0
#include <catch2/catch_test_macros.hpp>

#include "timeline/host_waits.h"

namespace pillion::timeline {
namespace {

TEST_CASE("waits count by their return, whole") {
  HostWaits waits(10);
  REQUIRE(waits.add(1, {7, 100, 200}));
  REQUIRE(waits.add(1, {7, 300, 350}));
  REQUIRE(waits.add(1, {7, 210, 220}));  // read out of order
  CHECK(waits.waited_ns(1, 7, 0, 1000) == 160);
  CHECK(waits.waited_ns(1, 7, 199, 220) == 110);
  CHECK(waits.waited_ns(1, 7, 200, 349) == 10);
  CHECK(waits.waited_ns(1, 8, 0, 1000) == 0);
  CHECK(waits.waited_ns(2, 7, 0, 1000) == 0);
}

TEST_CASE("waits of no length, and those that end before they begin, are none") {
  HostWaits waits(10);
  CHECK(waits.add(1, {7, 100, 100}));
  CHECK(waits.add(1, {7, 100, 90}));
  CHECK(waits.size() == 0);
}

TEST_CASE("past the limit a thread's oldest call leaves, and a new thread finds no room") {
  HostWaits waits(2);
  REQUIRE(waits.add(1, {7, 0, 10}));
  REQUIRE(waits.add(1, {7, 20, 40}));
  CHECK_FALSE(waits.add(1, {7, 50, 80}));
  CHECK(waits.waited_ns(1, 7, 0, 100) == 50);
  CHECK_FALSE(waits.add(1, {8, 50, 80}));
  CHECK(waits.size() == 2);
  waits.forget_before(40);
  CHECK(waits.size() == 1);
  CHECK(waits.add(1, {8, 50, 80}));
}

}  // namespace
}  // namespace pillion::timeline
