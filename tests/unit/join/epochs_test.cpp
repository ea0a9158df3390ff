// SPDX-License-Identifier: Apache-2.0
#include <catch2/catch_test_macros.hpp>

#include "join/joiner.h"
#include "records.h"

// The 32-bit correlation id goes round: the join tells the rounds apart.
namespace pillion::join {
namespace {

constexpr std::uint64_t kEnd = kArmed + 10'000 * kSecond;

void open_long(Session& s) { open(s, kWindow, kArmed, kEnd); }
WindowData close_long(Session& s) { return close(s, kWindow, kEnd); }

TEST_CASE("ids go round many times with launches in flight on both sides of each wrap") {
  Session s;
  open_long(s);
  constexpr std::uint32_t kStep = 1u << 20;  // other calls use up ids, too
  constexpr std::uint32_t kInFlight = 2'000;
  constexpr std::uint32_t kLaunches = 3 * 4'096 + 100;
  std::uint64_t gpu_ns = 0;
  for (std::uint32_t i = 0; i < kLaunches + kInFlight; ++i) {
    if (i < kLaunches) s.joiner.on_launch(launch(7 + i * kStep, kArmed + i, true, 5));
    if (i < kInFlight) continue;
    const std::uint32_t done = i - kInFlight;
    s.joiner.on_execution(kernel(7 + done * kStep, kArmed + i, kArmed + i + done % 100));
    s.joiner.on_stack(7 + done * kStep, 5, 9, StackEnding::rooted);
    gpu_ns += done % 100;
    if (i % 500 == 0) s.drains(1);
  }
  const WindowData data = close_long(s);
  CHECK(data.counters.launches == kLaunches);
  CHECK(data.counters.joined == kLaunches);
  CHECK(data.counters.executions == kLaunches);
  CHECK(data.counters.launches_duplicate == 0);
  CHECK(data.counters.pending == 0);
  CHECK(data.counters.stacks_unmatched == 0);
  CHECK(totals(data).gpu_ns == gpu_ns);
  REQUIRE(data.samples.size() == 1);
  CHECK(data.samples[0].attribution == Attribution::exact);
}

TEST_CASE("an id that comes again while its launch of the last round still waits is another launch's") {
  Session s;
  open_long(s);
  for (std::uint32_t i = 0; i <= 4; ++i) {
    const std::uint32_t id = 7 + i * (1u << 30);  // the last is 7 again
    s.joiner.on_launch(launch(id, kArmed + 10 * i));
    if (i > 0) s.joiner.on_execution(kernel(id, kArmed + 10 * i + 1, kArmed + 10 * i + 2));
  }
  const WindowData data = close_long(s);
  CHECK(data.counters.launches == 5);
  CHECK(data.counters.launches_duplicate == 0);
  CHECK(data.counters.joined == 4);
  CHECK(data.counters.pending == 1);
}

TEST_CASE("an execution with an id of nobody does not move the epoch") {
  Session s;
  open_long(s);
  const std::uint32_t far = 1000 + 0x7fffffffu;
  SECTION("after the first launch") {
    s.joiner.on_launch(launch(1000, kArmed + 1));
    s.joiner.on_execution(kernel(far, kArmed + 2, kArmed + 3));
  }
  SECTION("before it") {
    s.joiner.on_execution(kernel(far, kArmed + 2, kArmed + 3));
    s.joiner.on_launch(launch(1000, kArmed + 1));
  }
  s.joiner.on_launch(launch(1001, kArmed + 4));
  s.joiner.on_execution(kernel(999, kArmed + 5, kArmed + 6));  // from before the session
  s.joiner.on_launch(launch(1002, kArmed + 7));
  for (const std::uint32_t id : {1000u, 1001u, 1002u})
    s.joiner.on_execution(kernel(id, kArmed + 8, kArmed + 9));
  s.drains(4);
  const WindowData data = close_long(s);
  CHECK(data.counters.joined == 3);
  CHECK(data.counters.launched_before + data.counters.launch_lost == 2);
  CHECK(data.counters.pending == 0);
}

TEST_CASE("a kernel that runs for more than half a round of ids still finds its launch") {
  Session s;
  open_long(s);
  s.joiner.on_launch(launch(10, kArmed + 1));
  std::uint32_t id = 10;
  for (std::uint64_t i = 1; i <= 10; ++i) {
    id += 1u << 28;
    s.joiner.on_launch(launch(id, kArmed + i * kSecond));
    s.joiner.on_execution(kernel(id, kArmed + i * kSecond, kArmed + i * kSecond + 1));
  }
  s.now = kArmed + 20 * kSecond;
  s.drains(1);
  s.joiner.on_execution(kernel(10, kArmed + 2, kArmed + 15 * kSecond));
  const WindowData data = close_long(s);
  CHECK(data.counters.joined == 11);
  CHECK(data.counters.pending == 0);
}

TEST_CASE("ids that were used up unseen, more than half a round, are ahead and not behind") {
  Session s;
  open_long(s);
  s.joiner.on_launch(launch(100, kArmed + 1));
  s.joiner.on_execution(kernel(100, kArmed + 2, kArmed + 3));
  // An hour of calls that are not recorded.
  const std::uint64_t later = kArmed + 3'600 * kSecond;
  s.now = later;
  s.joiner.on_launch(launch(3'000'000'000u, later));
  s.drains(1);
  s.joiner.on_execution(kernel(2'999'999'999u, later, later + 1));  // its launch record was lost
  s.joiner.on_execution(kernel(3'000'000'000u, later, later + 5));
  s.drains(4);
  const WindowData data = close_long(s);
  CHECK(data.counters.joined == 2);
  CHECK(data.counters.launch_lost == 1);
  CHECK(data.counters.launched_before == 0);
}

TEST_CASE("a launch record that was held up comes behind, however late") {
  Session s;
  open_long(s);
  s.joiner.on_launch(launch(5'000, kArmed + 1));
  s.joiner.on_launch(launch(4'999, kArmed + 60 * kSecond));  // its thread was stopped between id and stamp
  s.joiner.on_execution(kernel(4'999, kArmed + 60 * kSecond, kArmed + 60 * kSecond + 1));
  s.joiner.on_execution(kernel(5'000, kArmed + 2, kArmed + 3));
  s.now = kArmed + 61 * kSecond;
  s.drains(1);
  CHECK(close_long(s).counters.joined == 2);
}

}  // namespace
}  // namespace pillion::join
