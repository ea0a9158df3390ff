// SPDX-License-Identifier: Apache-2.0
#include "base/clock_watch.h"

#include <catch2/catch_test_macros.hpp>

namespace pillion {
namespace {

struct Hands {
  std::optional<std::int64_t> difference = 1'700'000'000'000'000'000;
  ClockWatch watch{[this] { return difference; }};
  void move(std::int64_t ns) { *difference += ns; }
};

TEST_CASE("steps in either direction are counted once, slewing never") {
  Hands hands;
  CHECK(hands.watch.look() == 0);
  for (int second = 0; second < 3'600; ++second) {
    hands.move(500'000);
    CHECK(hands.watch.look() == 0);
  }
  hands.move(3'600'000'000'000);
  CHECK(hands.watch.look() == 1);
  CHECK(hands.watch.look() == 1);
  hands.move(-200'000'000);
  CHECK(hands.watch.look() == 2);
  hands.move(ClockWatch::kStepNs - 1);
  CHECK(hands.watch.look() == 2);
}

TEST_CASE("a clock that cannot be read closely enough is looked at again later") {
  Hands hands;
  const auto before = hands.difference;
  hands.difference.reset();
  CHECK(hands.watch.look() == 0);
  hands.difference = before;
  hands.move(1'000'000'000);
  CHECK(hands.watch.look() == 1);
}

TEST_CASE("this machine's clock does not step by being looked at") {
  ClockWatch watch;
  for (int i = 0; i < 1'000; ++i) (void)watch.look();
  CHECK(watch.look() == 0);
}

}  // namespace
}  // namespace pillion
