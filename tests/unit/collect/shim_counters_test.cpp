// SPDX-License-Identifier: Apache-2.0
#include "collect/shim_counters.h"

#include <catch2/catch_test_macros.hpp>

#include "test_rings.h"

using namespace pillion::collect;

TEST_CASE("counters are read as they are") {
  const TestRings shared({});
  ShimCounters counters(shared.rings().counters);
  shared.counters()->launches = 5;
  shared.counters()->last_tick_ns = 9;
  CHECK(counters.read().launches == 5);
  shared.counters()->launches = 6;
  CHECK(counters.last().launches == 5);
  CHECK(counters.read().launches == 6);
  CHECK(counters.last().last_tick_ns == 9);
  CHECK(counters.implausible() == 0);
}

TEST_CASE("a total that shrinks or explodes keeps its last good value; a state may shrink") {
  const TestRings shared({});
  ShimCounters counters(shared.rings().counters);
  shared.counters()->executions = 100;
  shared.counters()->sample_interval = 64;
  shared.counters()->launching_threads = 8;
  (void)counters.read();
  shared.counters()->executions = 99;
  shared.counters()->launches = ~0ull;
  shared.counters()->sample_interval = 2;
  shared.counters()->launching_threads = 1;
  CHECK(counters.read().executions == 100);
  CHECK(counters.last().launches == 0);
  CHECK(counters.last().sample_interval == 2);
  CHECK(counters.last().launching_threads == 1);
  CHECK(counters.implausible() == 2);
}
