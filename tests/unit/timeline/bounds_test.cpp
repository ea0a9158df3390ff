// SPDX-License-Identifier: Apache-2.0
// What does not fit is decided early, merged or dropped, and counted; time is conserved all the same.
#include <catch2/catch_test_macros.hpp>

#include <random>
#include <vector>

#include "timeline_fixture.h"

namespace pillion::timeline {
namespace {

const Script kKernel;
const Script kCopy{.stream = 8, .kind = ExecutionKind::copy};

Limits few_intervals() {
  Limits limits;
  limits.intervals_max = 64;
  return limits;
}

TEST_CASE("more executions than are kept: the same profile, in bounded room") {
  constexpr std::int64_t kCount = 5'000;
  OneWindow small(kCount * 100, few_intervals());
  OneWindow large(kCount * 100);
  std::mt19937 random(7);
  for (std::int64_t i = 0; i < kCount; ++i) {
    const auto site = static_cast<StackId>(1 + random() % 5);
    const std::int64_t start = i * 100 + static_cast<std::int64_t>(random() % 90);
    const Script script{.stream = static_cast<std::uint32_t>(random() % 3),
                        .kind = static_cast<ExecutionKind>(random() % 3)};
    const Ran ran = script.ran(site, start - static_cast<std::int64_t>(random() % 200), start,
                               start + static_cast<std::int64_t>(random() % 150));
    small.run(ran);
    large.run(ran);
    REQUIRE(small.timeline.intervals() <= 64);
  }
  const IdleData a = small.close();
  const IdleData b = large.close();
  CHECK(adds_up(a));
  CHECK(a.counters.executions_late == 0);
  REQUIRE(a.samples.size() == b.samples.size());
  for (std::size_t i = 0; i < a.samples.size(); ++i) {
    CHECK(a.samples[i].ns == b.samples[i].ns);
    CHECK(a.samples[i].gaps == b.samples[i].gaps);
    CHECK(a.samples[i].launch.stack == b.samples[i].launch.stack);
    CHECK(a.samples[i].cause == b.samples[i].cause);
  }
  CHECK(a.devices.at(0).busy_ns == b.devices.at(0).busy_ns);
  CHECK(a.devices.at(0).kernel_ns == b.devices.at(0).kernel_ns);
  CHECK(a.devices.at(0).kernel_busy_ns == b.devices.at(0).kernel_busy_ns);
}

TEST_CASE("an execution that comes after its time was decided is counted, and moves nothing") {
  OneWindow w(100'000, few_intervals());
  for (std::int64_t i = 0; i < 100; ++i) w.run(kKernel.ran(1, i * 100 - 5, i * 100, i * 100 + 10));
  w.run(kKernel.ran(2, 40, 50, 60));           // in a gap that was charged long ago
  w.run(kKernel.ran(2, 9'920, 9'950, 9'960));  // in one that was not
  CHECK(w.timeline.counters().executions_late == 1);
  const IdleData data = w.close();
  CHECK(adds_up(data));
  CHECK(data.counters.executions_late == 1);
  CHECK(data.devices.at(0).busy_ns == 101 * 10);
  CHECK(ns(data, {2, IdleCause::host_bound}) == 10);  // of the second alone
  CHECK(ns(data, {2, IdleCause::queued}) == 30);
  CHECK(data.counters.gaps_merged == 0);
}

TEST_CASE("a late execution counts in the windows that it is late for, and once in all") {
  IdleTimeline timeline(few_intervals());
  timeline.add_session(kSession, 42);
  for (const WindowId id : {1, 2}) {
    REQUIRE(timeline.open_window(id, {}, kT0, kT0 + 50'000));
    timeline.enter_window(id, kSession);
  }
  for (std::int64_t i = 0; i < 100; ++i)
    timeline.on_execution(kSession, kKernel.ran(1, i * 100 - 5, i * 100, i * 100 + 10));
  REQUIRE(timeline.open_window(3, {}, kT0 + 10'000, kT0 + 50'000));
  timeline.enter_window(3, kSession);
  timeline.on_execution(kSession, kKernel.ran(2, 40, 50, 60));
  CHECK(timeline.close_window(1, kT0 + 50'000, {})->counters.executions_late == 1);
  CHECK(timeline.close_window(2, kT0 + 50'000, {})->counters.executions_late == 1);
  CHECK(timeline.close_window(3, kT0 + 50'000, {})->counters.executions_late == 0);
  CHECK(timeline.counters().executions_late == 1);
}

TEST_CASE("copies without end and no kernel: decided in bounded room, what would have waited is merged") {
  OneWindow w(100'000, few_intervals());
  for (std::int64_t i = 0; i < 500; ++i) {
    w.run(kCopy.ran(5, i * 100 - 5, i * 100, i * 100 + 40));
    REQUIRE(w.timeline.intervals() <= 64);
  }
  w.run(kKernel.ran(1, 0, 60'000, 100'000));
  const IdleData data = w.close();
  CHECK(adds_up(data));
  CHECK(data.devices.at(0).idle_ns[static_cast<std::size_t>(IdleCause::copy)] == 500 * 40);
  CHECK(data.counters.gaps_merged > 0);
  CHECK(data.counters.gaps_merged == w.timeline.counters().gaps_merged);
  CHECK(data.counters.executions_late == 0);
}

TEST_CASE("more executions at once than any device runs: counted as late, the memory bounded") {
  OneWindow w(1'000'000, few_intervals());
  for (std::int64_t i = 0; i < 500; ++i) {
    w.run(kKernel.ran(1, -5, i, 1'000'000));
    REQUIRE(w.timeline.intervals() <= 64);
  }
  const IdleData data = w.close();
  CHECK(adds_up(data));
  CHECK(data.counters.executions_late > 0);
}

TEST_CASE("more places of launches than are kept: merged, with their time, by device") {
  Limits limits;
  limits.launches_max = 4;
  OneWindow w(10'000, limits);
  for (std::int64_t i = 0; i < 10; ++i)
    w.run(kKernel.ran(static_cast<StackId>(i + 1), i * 100, i * 100 + 50, i * 100 + 100));
  const IdleData data = w.close();
  CHECK(adds_up(data));
  std::uint64_t merged = 0;
  for (const IdleSample& sample : data.samples)
    merged += sample.launch.attribution == Attribution::other ? sample.ns : 0;
  CHECK(merged == 6 * 50);
  CHECK(data.counters.gaps_merged == 6);
}

TEST_CASE("more cells than a window holds: merged, with their time") {
  Limits limits;
  limits.cells_max = 3;
  OneWindow w(10'000, limits);
  w.run(kKernel.ran(99, -5, 0, 10));
  for (std::int64_t i = 0; i < 10; ++i)
    w.run(kKernel.ran(static_cast<StackId>(i + 1), i * 100, i * 100 + 50, i * 100 + 100));
  const IdleData data = w.close();
  CHECK(adds_up(data));
  CHECK(data.samples.size() <= 3 + 5 * 4);
  CHECK(data.counters.gaps_merged > 0);
}

TEST_CASE("more synchronisation calls than are kept are counted") {
  Limits limits;
  limits.syncs_max = 2;
  OneWindow w(10'000, limits);
  for (std::int64_t i = 0; i < 5; ++i) w.timeline.on_host_sync(kSession, sync_call(i * 10, i * 10 + 5));
  CHECK(w.timeline.counters().syncs_dropped == 3);
  CHECK(w.close().counters.syncs_dropped == 3);
}

TEST_CASE("without a window nothing is kept") {
  IdleTimeline timeline;
  timeline.add_session(kSession, 42);
  timeline.on_execution(kSession, kKernel.ran(1, 0, 10, 20));
  timeline.on_host_sync(kSession, sync_call(0, 10));
  CHECK(timeline.intervals() == 0);
  REQUIRE(timeline.open_window(1, {}, kT0 + 100, kT0 + 200));
  timeline.enter_window(1, kSession);
  timeline.on_execution(kSession, kKernel.ran(1, 0, 10, 99));  // over before it began
  CHECK(timeline.intervals() == 0);
}

TEST_CASE("more device numbers than any machine has: left out, counted") {
  Limits limits;
  limits.devices_max = 2;
  OneWindow w(1000, limits);
  for (std::uint32_t device = 0; device < 5; ++device) w.run(Script{.device = device}.ran(1, 0, 10, 1000));
  const IdleData data = w.close();
  CHECK(adds_up(data));
  CHECK(data.devices.size() == 2);
  CHECK(w.timeline.counters().executions_late == 3);
}

}  // namespace
}  // namespace pillion::timeline
