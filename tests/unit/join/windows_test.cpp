// SPDX-License-Identifier: Apache-2.0
#include <catch2/catch_test_macros.hpp>

#include "join/joiner.h"
#include "records.h"

namespace pillion::join {
namespace {

TEST_CASE("an execution belongs to the window in which it ended, with its full duration") {
  Session s;
  REQUIRE(s.joiner.open_window(1, {}, kArmed, kArmed + 100));
  REQUIRE(s.joiner.open_window(2, {}, kArmed + 100, kArmed + 200));
  REQUIRE(s.joiner.open_window(3, {}, kArmed + 50, kArmed + 150));
  const std::uint64_t ends[] = {99, 100, 149, 150, 199, 200};
  for (std::uint32_t i = 0; i < 6; ++i) {
    s.joiner.on_launch(launch(i + 1, kArmed + 1));
    s.joiner.on_execution(kernel(i + 1, kArmed + 10, kArmed + ends[i]));
  }
  CHECK(totals(*s.joiner.close_window(1, kArmed + 100)).gpu_ns == 89);
  CHECK(totals(*s.joiner.close_window(3, kArmed + 150)).gpu_ns == 89 + 90 + 139);
  CHECK(totals(*s.joiner.close_window(2, kArmed + 200)).gpu_ns == 90 + 139 + 140 + 189);
  CHECK(s.joiner.open_windows() == 0);
}

TEST_CASE("windows are refused by id, number and order, and unknown ones are errors") {
  Limits limits;
  limits.windows_max = 2;
  Session s(limits);
  CHECK(s.joiner.open_window(1, {}, kArmed, kArmed + 1));
  CHECK_FALSE(s.joiner.open_window(1, {}, kArmed, kArmed + 1));
  CHECK_FALSE(s.joiner.open_window(2, {}, kArmed, kArmed));
  CHECK(s.joiner.open_window(3, {}, kArmed));
  CHECK_FALSE(s.joiner.open_window(4, {}, kArmed));
  CHECK_FALSE(s.joiner.close_window(9, kArmed));
  s.joiner.abandon_window(3);
  CHECK(s.joiner.open_window(4, {}, kArmed));
}

TEST_CASE("the device filter keeps the other devices' executions out") {
  Session s;
  REQUIRE(s.joiner.open_window(1, {.device = 1}, kArmed));
  for (std::uint32_t i = 1; i <= 6; ++i) {
    RawExecution e = kernel(i, kArmed + 10, kArmed + 10 + i);
    e.device = i % 2;
    s.joiner.on_launch(launch(i, kArmed + 1));
    s.joiner.on_execution(e);
  }
  CHECK(totals(*s.joiner.close_window(1, kArmed + 100)).gpu_ns == 1 + 3 + 5);
}

TEST_CASE("a window closed early says which end is in force") {
  Session s;
  REQUIRE(s.joiner.open_window(1, {}, kArmed));
  s.joiner.on_launch(launch(1, kArmed + 1));
  s.joiner.on_execution(kernel(1, kArmed + 10, kArmed + 60));
  s.joiner.end_window(1, kArmed + 50);
  s.joiner.on_launch(launch(2, kArmed + 1));
  s.joiner.on_execution(kernel(2, kArmed + 10, kArmed + 55));
  const auto data = s.joiner.close_window(1, kArmed + 80);
  CHECK(totals(*data).count == 1);
  CHECK(data->t1_ns == kArmed + 61);
}

TEST_CASE("closing one window decides for it alone") {
  Session s;
  REQUIRE(s.joiner.open_window(1, {}, kArmed, kArmed + 100));
  REQUIRE(s.joiner.open_window(2, {}, kArmed, kArmed + 200));
  s.joiner.on_launch(launch(1, kArmed + 1, true, 77));
  s.joiner.on_execution(kernel(1, kArmed + 10, kArmed + 60));
  s.joiner.on_execution(kernel(2, kArmed + 10, kArmed + 70));
  const Settlement open = s.joiner.settlement(1);
  CHECK(open.executions_without_launch == 1);
  CHECK(open.executions_without_stack == 1);
  const auto first = s.joiner.close_window(1, kArmed + 100);
  CHECK(first->counters.launched_before + first->counters.launch_lost == 1);
  CHECK(totals(*first) == Totals{2, 110, 9, 0});
  s.joiner.on_stack(1, 77, 5, StackEnding::rooted);
  s.joiner.on_launch(launch(2, kArmed + 2));
  const auto second = s.joiner.close_window(2, kArmed + 200);
  CHECK(second->counters.joined == 2);
  CHECK(totals(*second) == Totals{2, 110, 17, 0});
  bool exact = false;
  for (const JoinedSample& sample : second->samples)
    exact = exact || sample.attribution == Attribution::exact;
  CHECK(exact);
}

TEST_CASE("launches that have not run are pending, those from before the window apart") {
  Session s;
  s.joiner.on_launch(launch(1, kArmed + 1));
  REQUIRE(s.joiner.open_window(1, {}, kArmed + 100, kArmed + 200));
  s.joiner.on_launch(launch(2, kArmed + 150));
  s.joiner.on_launch(launch(3, kArmed + 250));
  CHECK(s.joiner.settlement(1).launches_pending == 2);
  CHECK(s.joiner.settlement(1).executions_settled());
  const auto data = s.joiner.close_window(1, kArmed + 200);
  CHECK(data->counters.pending == 1);
  CHECK(data->counters.pending_earlier == 1);
}

}  // namespace
}  // namespace pillion::join
