// SPDX-License-Identifier: Apache-2.0
#include "join/joiner.h"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/generators/catch_generators_range.hpp>

#include "records.h"

namespace pillion::join {
namespace {

TEST_CASE("an execution finds its launch and its stack, whichever comes first") {
  const int order = GENERATE(range(0, 6));
  Session s;
  open(s);
  const auto deliver = [&](int what) {
    if (what == 0) s.joiner.on_launch(launch(5, kArmed + 10, true, 77));
    if (what == 1) s.joiner.on_execution(kernel(5, kArmed + 100, kArmed + 350));
    if (what == 2) s.joiner.on_stack(5, 77, 9, StackEnding::rooted);
  };
  static constexpr int kOrders[6][3] = {{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};
  for (const int what : kOrders[order]) deliver(what);
  const WindowData data = close(s);
  REQUIRE(data.samples.size() == 1);
  CHECK(data.samples[0].attribution == Attribution::exact);
  CHECK(data.samples[0].stack == 9);
  CHECK(data.samples[0].tid == 100);
  CHECK(totals(data) == Totals{1, 250, 90, 0});
  CHECK(data.counters.joined == 1);
  CHECK(data.counters.stacks_by_ending[0] == 1);
  CHECK(s.joiner.counters().pending == 0);
}

TEST_CASE("an execution waits for its launch for two further drains, no longer") {
  Session s;
  open(s);
  s.drains(1);
  s.joiner.on_execution(kernel(5, kArmed + 100, kArmed + 200));
  s.drains(2);  // two more have begun; the second is going on
  CHECK(s.joiner.settlement(kWindow).executions_without_launch == 1);
  SECTION("its launch comes in time") {
    s.joiner.on_launch(launch(5, kArmed + 10));
    CHECK(s.joiner.settlement(kWindow).executions_settled());
    CHECK(close(s).counters.joined == 1);
  }
  SECTION("its launch never comes") {
    s.drains(1);
    CHECK(s.joiner.settlement(kWindow).executions_settled());
    const WindowData data = close(s);
    CHECK(data.counters.launched_before == 1);
    CHECK(data.samples.at(0).attribution == Attribution::before_session);
    CHECK(totals(data) == Totals{1, 100, 0, 0});
  }
}

TEST_CASE("a missing launch record within the session is told from one before it") {
  Session s;
  open(s);
  s.joiner.on_launch(launch(50, kArmed + 10));
  s.joiner.on_execution(kernel(50, kArmed + 20, kArmed + 30));
  s.joiner.on_execution(kernel(40, kArmed + 20, kArmed + 30));
  s.joiner.on_execution(kernel(60, kArmed + 20, kArmed + 30));
  s.drains(4);
  const WindowData data = close(s);
  CHECK(data.counters.executions == 3);
  CHECK(data.counters.joined == 1);
  CHECK(data.counters.launched_before == 1);
  CHECK(data.counters.launch_lost == 1);
}

TEST_CASE("correlations wrap and stay apart") {
  Session s;
  open(s);
  for (std::uint32_t i = 0; i < 100; ++i) s.joiner.on_launch(launch(0xffffffffu - 50 + i, kArmed + i));
  for (std::uint32_t i = 100; i-- > 0;) {
    s.joiner.on_execution(kernel(0xffffffffu - 50 + i, kArmed + 1000, kArmed + 1000 + i));
  }
  const WindowData data = close(s);
  CHECK(data.counters.joined == 100);
  CHECK(data.counters.launches_duplicate == 0);
  CHECK(totals(data).gpu_ns == 99 * 100 / 2);
}

TEST_CASE("a graph launch serves all its nodes; a kernel launch leaves after one") {
  Session s;
  open(s);
  s.joiner.on_launch(launch(5, kArmed, false, 1, LaunchKind::graph));
  for (std::uint64_t node = 0; node < 54; ++node) {
    RawExecution e = kernel(5, kArmed + 100 * node + 100, kArmed + 100 * node + 110);
    e.graph = 3;
    e.graph_node = (3ull << 32) | node;
    s.joiner.on_execution(e);
    s.drains(1);
  }
  const WindowData data = close(s);
  CHECK(data.counters.joined == 54);
  CHECK(totals(data).count == 54);
  CHECK(data.samples.at(0).graph);
}

TEST_CASE("a launch that waits for its stack is not released by drains") {
  Session s;
  open(s);
  s.joiner.on_launch(launch(5, kArmed + 10, true, 77));
  s.joiner.on_execution(kernel(5, kArmed + 100, kArmed + 200));
  s.drains(100);  // 5 s, half of the wait
  CHECK(s.joiner.settlement(kWindow).executions_without_stack == 1);
  SECTION("and takes it when it comes") {
    s.joiner.on_stack(5, 77, 9, StackEnding::fiber);
    const WindowData data = close(s);
    CHECK(data.samples.at(0).attribution == Attribution::exact);
    CHECK(data.counters.stacks_by_ending[static_cast<std::size_t>(StackEnding::fiber)] == 1);
  }
  SECTION("until the wait is over") {
    s.drains(101);
    CHECK(s.joiner.settlement(kWindow).executions_settled());
    const WindowData data = close(s);
    CHECK(data.counters.stacks_given_up == 1);
    CHECK(data.samples.at(0).attribution == Attribution::unsampled);
  }
  SECTION("or it is told that none will come") {
    s.joiner.on_stack(5, 77, 0, StackEnding::faulted);
    CHECK(s.joiner.settlement(kWindow).executions_settled());
    CHECK(close(s).counters.stacks_empty == 1);
  }
}

TEST_CASE("impossible stamps count as launches and carry no time") {
  struct Case {
    std::uint64_t start, end;
    std::uint64_t JoinCounters::*counter;
  };
  const std::uint64_t launched = kArmed + 5 * kSecond;
  const Case c = GENERATE_COPY(
      Case{0, launched + 10, &JoinCounters::invalid_zero},
      Case{launched + 10, 0, &JoinCounters::invalid_zero}, Case{0, 0, &JoinCounters::invalid_zero},
      Case{launched + 10, launched + 9, &JoinCounters::invalid_reversed},
      Case{launched - 100'000'000, launched + 10, &JoinCounters::invalid_before_launch},
      Case{launched, launched + 100'000 * kSecond, &JoinCounters::invalid_outside_session},
      Case{launched + 3 * kSecond, launched + 3 * kSecond + 5, &JoinCounters::invalid_outside_session},
      Case{kSecond, 2 * kSecond, &JoinCounters::invalid_outside_session},
      Case{~0ull - 5, ~0ull, &JoinCounters::invalid_outside_session});
  Session s;
  open(s);
  s.now = launched + kSecond;
  s.drains(1);
  s.joiner.on_launch(launch(5, launched));
  s.joiner.on_execution(kernel(5, c.start, c.end));
  const WindowData data = close(s);
  CHECK(data.counters.*c.counter == 1);
  CHECK(totals(data) == Totals{1, 0, 0, 0});
}

TEST_CASE("a start just before its launch call is the clocks' error, not the record's") {
  Session s;
  open(s);
  s.now = kArmed + kSecond;
  s.drains(1);
  s.joiner.on_launch(launch(5, kArmed + kSecond));
  s.joiner.on_execution(kernel(5, kArmed + kSecond - 1'000'000, kArmed + kSecond + 500));
  CHECK(totals(close(s)) == Totals{1, 1'000'500, 0, 0});
}

TEST_CASE(
    "a launch that was captured into a graph is neither pending nor failed, whichever record comes first") {
  Session s;
  open(s);
  s.joiner.on_launch(launch(5, kArmed + 1));
  s.joiner.on_launch_failed({5, 0});
  s.joiner.on_launch_failed({6, 0});
  s.joiner.on_launch(launch(6, kArmed + 2, true));
  s.joiner.on_launch(launch(7, kArmed + 3));
  s.drains(300);
  const WindowData data = close(s);
  CHECK(data.counters.launches == 3);
  CHECK(data.counters.launches_captured == 2);
  CHECK(data.counters.launches_failed == 0);
  CHECK(data.counters.pending == 1);
}

TEST_CASE("a failed launch is neither pending nor joined, whichever record comes first") {
  Session s;
  open(s);
  s.joiner.on_launch(launch(5, kArmed + 1));
  s.joiner.on_launch_failed({5, 700});
  s.joiner.on_launch_failed({6, 700});
  s.joiner.on_launch(launch(6, kArmed + 2, true));
  s.joiner.on_launch(launch(7, kArmed + 3));
  s.joiner.on_launch_failed({8, 1});
  s.drains(300);
  const WindowData data = close(s);
  CHECK(data.counters.launches == 3);
  CHECK(data.counters.launches_failed == 2);
  CHECK(data.counters.pending == 1);
  CHECK(data.counters.failed_unmatched == 1);
}

TEST_CASE("host functions run on no GPU and wait for nothing") {
  Session s;
  open(s);
  s.joiner.on_launch(launch(5, kArmed, false, 1, LaunchKind::host));
  const WindowData data = close(s);
  CHECK(data.counters.host_functions == 1);
  CHECK(data.counters.pending == 0);
}

TEST_CASE("a full table drops joined launches silently and pending ones by name") {
  Limits limits;
  limits.launches_max = 100;
  Session s(limits);
  open(s);
  for (std::uint32_t i = 1; i <= 60; ++i) {
    s.joiner.on_launch(launch(i, kArmed + i, false, 1, LaunchKind::graph));
    s.joiner.on_execution(kernel(i, kArmed + 100, kArmed + 110));
  }
  for (std::uint32_t i = 61; i <= 160; ++i) s.joiner.on_launch(launch(i, kArmed + i));
  CHECK(s.joiner.counters().evicted_unjoined == 0);
  for (std::uint32_t i = 161; i <= 170; ++i) s.joiner.on_launch(launch(i, kArmed + i));
  CHECK(s.joiner.counters().evicted_unjoined == 10);
  const WindowData data = close(s);
  CHECK(data.counters.launches ==
        data.counters.joined + data.counters.pending + data.counters.evicted_unjoined);
}

TEST_CASE("executions without launch are bounded in number") {
  Limits limits;
  limits.held_executions_max = 10;
  Session s(limits);
  open(s);
  for (std::uint32_t i = 1; i <= 30; ++i) s.joiner.on_execution(kernel(i, kArmed + 1, kArmed + 2));
  CHECK(s.joiner.counters().decided_early == 20);
  CHECK(totals(close(s)).count == 30);
}

TEST_CASE("time without own stacks goes to the stacks of its context key as often as each was seen") {
  Session s;
  open(s);
  std::uint32_t id = 1;
  for (const StackId stack : {1u, 1u, 1u, 2u}) {
    s.joiner.on_launch(launch(id, kArmed + id, true, 77));
    s.joiner.on_stack(id++, 77, stack, StackEnding::rooted);
  }
  s.joiner.on_launch(launch(id, kArmed + id, false, 77));
  s.joiner.on_execution(kernel(id++, kArmed + 1000, kArmed + 2001));
  s.joiner.on_launch(launch(id, kArmed + id, false, 88));
  s.joiner.on_execution(kernel(id, kArmed + 1000, kArmed + 1007));
  const WindowData data = close(s);
  REQUIRE(data.samples.size() == 3);
  std::uint64_t by_stack[3] = {};
  for (const JoinedSample& sample : data.samples) {
    by_stack[sample.stack] += sample.gpu_ns;
    CHECK((sample.attribution == Attribution::context) == (sample.stack != 0));
  }
  CHECK(by_stack[0] == 7);
  CHECK(by_stack[1] == 751);  // 750.75
  CHECK(by_stack[2] == 250);  // 250.25
}

TEST_CASE("more distinct cells than allowed merge, kernel and device kept while there is room") {
  Limits limits;
  limits.cells_max = 8;
  Session s(limits);
  open(s);
  for (std::uint32_t i = 1; i <= 200; ++i) {
    RawExecution e = kernel(i, kArmed + 1000, kArmed + 1010);
    e.stream = i;
    s.joiner.on_launch(launch(i, kArmed + i));
    s.joiner.on_execution(e);
  }
  const WindowData data = close(s);
  CHECK(data.counters.cells_merged == 192);
  CHECK(totals(data).gpu_ns == 2000);
  CHECK(data.samples.size() <= 10);
}

TEST_CASE("names are bounded and only the used ones travel") {
  Limits limits;
  limits.names_max = 2;
  Session s(limits);
  open(s);
  s.joiner.on_name({1, std::string(1u << 20, 'x')});
  s.joiner.on_name({2, "unused"});
  s.joiner.on_name({3, "refused"});
  s.joiner.on_launch(launch(1, kArmed));
  s.joiner.on_execution(kernel(1, kArmed + 1, kArmed + 2));
  const WindowData data = close(s);
  REQUIRE(data.names.size() == 1);
  CHECK(data.names.at(1).size() == limits.name_bytes_max);
  CHECK(data.counters.names_refused == 1);
}

TEST_CASE("a new session starts from nothing") {
  Session s;
  s.joiner.on_launch(launch(5, kArmed + 1, false, 77));
  s.joiner.on_stack(4, 77, 3, StackEnding::rooted);
  s.joiner.on_session(kArmed + 10 * kSecond);
  open(s);
  s.joiner.on_launch(launch(6, kArmed + 11 * kSecond, false, 77));
  s.joiner.on_execution(kernel(6, kArmed + 11 * kSecond, kArmed + 11 * kSecond + 5));
  s.joiner.on_execution(kernel(5, kArmed + 11 * kSecond, kArmed + 11 * kSecond + 5));
  s.drains(4);
  const WindowData data = close(s);
  CHECK(data.counters.joined == 1);
  CHECK(data.counters.launched_before == 1);
  CHECK(data.counters.pending == 0);
  CHECK(data.samples.at(0).attribution != Attribution::context);
}

}  // namespace
}  // namespace pillion::join
