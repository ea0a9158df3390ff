// SPDX-License-Identifier: Apache-2.0
// How long calls take: launches, and those that wait for the GPU.
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/generators/catch_generators_range.hpp>
#include <vector>

#include "records.h"

namespace pillion::join {
namespace {

constexpr std::uint32_t kDtoH = 2;

RawLaunch returning(std::uint32_t correlation, std::uint64_t time_ns, bool snapshot = false) {
  RawLaunch raw = launch(correlation, time_ns, snapshot);
  raw.returns = true;
  return raw;
}

RawLaunch copy_call(std::uint32_t correlation, std::uint64_t time_ns, std::uint32_t cbid) {
  RawLaunch raw = launch(correlation, time_ns, false, 1, LaunchKind::copy);
  raw.cbid = cbid;
  raw.returns = true;
  return raw;
}

RawExecution copy_execution(std::uint32_t correlation, std::uint64_t start_ns, std::uint64_t end_ns,
                            std::uint32_t kind) {
  RawExecution raw = kernel(correlation, start_ns, end_ns);
  raw.kind = ExecutionKind::copy;
  raw.copy_kind = kind;
  return raw;
}

RawReturned returned(std::uint32_t correlation, std::uint64_t time_ns) {
  return {correlation, false, time_ns};
}
RawReturned sync_returned(std::uint32_t correlation, std::uint64_t time_ns) {
  return {correlation, true, time_ns};
}

RawSync sync_call(std::uint32_t correlation, std::uint64_t time_ns, bool snapshot = false,
                  std::uint32_t tid = 100, std::uint64_t key = 5) {
  return {correlation, tid, time_ns, key, 126, 1, snapshot};
}

std::uint64_t sync_ns(const WindowData& data) {
  std::uint64_t ns = 0;
  for (const SyncSample& sync : data.syncs) ns += sync.ns;
  return ns;
}

TEST_CASE("a launch's duration stands in its sample, whichever record comes first") {
  const int order = GENERATE(range(0, 6));
  Session s;
  open(s);
  const auto deliver = [&](int what) {
    if (what == 0) s.joiner.on_launch(returning(5, kArmed + 10));
    if (what == 1) s.joiner.on_execution(kernel(5, kArmed + 100, kArmed + 350));
    if (what == 2) s.joiner.on_returned(returned(5, kArmed + 70));
  };
  static constexpr int kOrders[6][3] = {{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};
  for (const int what : kOrders[order]) deliver(what);
  const WindowData data = close(s);
  REQUIRE(data.samples.size() == 1);
  CHECK(data.samples[0].launch_calls == 1);
  CHECK(data.samples[0].launch_ns == 60);
  CHECK(totals(data) == Totals{1, 250, 90, 0});
  REQUIRE(data.latencies.size() == 1);
  CHECK(data.latencies[0].stream == 7);
  CHECK(data.latencies[0].queue.sum_ns() == 90);
  CHECK(data.latencies[0].call.sum_ns() == 60);
  CHECK(data.counters.call_durations_missing == 0);
  CHECK(s.joiner.counters().pending == 0);
}

TEST_CASE("an execution whose launch does not return waits two drains, then counts without the duration") {
  Session s;
  open(s);
  s.joiner.on_launch(returning(5, kArmed + 10));
  s.drains(1);
  s.joiner.on_execution(kernel(5, kArmed + 100, kArmed + 200));
  s.drains(2);
  CHECK(s.joiner.settlement(kWindow).executions_without_stack == 1);
  s.drains(1);
  CHECK(s.joiner.settlement(kWindow).executions_settled());
  s.joiner.on_returned(returned(5, kArmed + 900));  // too late: it is gone
  const WindowData data = close(s);
  CHECK(totals(data) == Totals{1, 100, 90, 0});
  CHECK(data.samples.at(0).launch_calls == 0);
  CHECK(data.counters.call_durations_missing == 1);
  CHECK(data.counters.joined == 1);
}

TEST_CASE("a window that closes meanwhile counts the execution once, and so does a later one") {
  Session s;
  open(s);
  open(s, 2);
  s.joiner.on_launch(returning(5, kArmed + 10));
  s.joiner.on_execution(kernel(5, kArmed + 100, kArmed + 200));
  CHECK(close(s).samples.at(0).launch_calls == 0);
  s.joiner.on_returned(returned(5, kArmed + 60));
  const WindowData data = close(s, 2);
  CHECK(totals(data) == Totals{1, 100, 90, 0});
  CHECK(data.samples.at(0).launch_ns == 50);
}

TEST_CASE("a graph's call counts once, however many nodes ran") {
  Session s;
  open(s);
  RawLaunch graph = launch(5, kArmed + 10, false, 1, LaunchKind::graph);
  graph.returns = true;
  s.joiner.on_launch(graph);
  s.joiner.on_returned(returned(5, kArmed + 510));
  for (std::uint64_t node = 0; node < 50; ++node)
    s.joiner.on_execution(kernel(5, kArmed + 1000 + node * 10, kArmed + 1005 + node * 10));
  const WindowData data = close(s);
  CHECK(data.samples.at(0).count == 50);
  CHECK(data.samples.at(0).launch_calls == 1);
  CHECK(data.samples.at(0).launch_ns == 500);
  CHECK(data.latencies.at(0).queue.count() == 50);
}

TEST_CASE("a failed or captured launch has no duration and waits for none") {
  Session s;
  open(s);
  s.joiner.on_launch(returning(5, kArmed + 10));
  s.joiner.on_launch_failed({5, 700});
  s.joiner.on_launch(returning(6, kArmed + 20));
  s.joiner.on_launch_failed({6, 0});
  s.drains(5);
  const WindowData data = close(s);
  CHECK(data.counters.launches_failed == 1);
  CHECK(data.counters.launches_captured == 1);
  CHECK(data.counters.call_durations_missing == 0);
  CHECK(data.counters.pending == 0);
}

TEST_CASE("queue time is 0 for a start just before its launch, and unknown where stamps are wrong") {
  Session s;
  open(s);
  s.joiner.on_launch(launch(1, kArmed + 1000));
  s.joiner.on_execution(kernel(1, kArmed + 900, kArmed + 1200));
  s.joiner.on_launch(launch(2, kArmed + 1000));
  s.joiner.on_execution(kernel(2, 0, 0));
  const WindowData data = close(s);
  REQUIRE(data.latencies.size() == 1);
  CHECK(data.latencies[0].queue.count() == 1);
  CHECK(data.latencies[0].queue.max_ns() == 0);
}

TEST_CASE("past the limit on rows latencies stand in one") {
  Limits limits;
  limits.latency_rows_max = 2;
  Session s(limits);
  open(s);
  for (std::uint32_t i = 0; i < 5; ++i) {
    s.joiner.on_launch(launch(i + 1, kArmed + 10));
    RawExecution execution = kernel(i + 1, kArmed + 100, kArmed + 200);
    execution.stream = i;
    s.joiner.on_execution(execution);
  }
  const WindowData data = close(s);
  REQUIRE(data.latencies.size() == 3);
  CHECK(data.latencies.back().merged);
  CHECK(data.latencies.back().queue.count() == 3);
  CHECK(data.counters.latency_rows_merged == 3);
}

TEST_CASE("a synchronisation call finds its return and its stack, whichever comes first") {
  const int order = GENERATE(range(0, 6));
  Session s;
  open(s);
  struct Observer : SettledObserver {
    void on_settled(const Settled&) override {}
    void on_host_sync(const HostSync& sync) override { seen.push_back(sync); }
    std::vector<HostSync> seen;
  } observer;
  const auto& observed = observer.seen;
  s.joiner.observe(&observer);
  const auto deliver = [&](int what) {
    if (what == 0) s.joiner.on_sync(sync_call(5, kArmed + 10, true));
    if (what == 1) s.joiner.on_returned(sync_returned(5, kArmed + 1010));
    if (what == 2) s.joiner.on_stack(5, 5, 9, StackEnding::rooted);
  };
  static constexpr int kOrders[6][3] = {{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};
  for (const int what : kOrders[order]) deliver(what);
  const WindowData data = close(s);
  REQUIRE(data.syncs.size() == 1);
  CHECK(data.syncs[0].ns == 1000);
  CHECK(data.syncs[0].calls == 1);
  CHECK_FALSE(data.syncs[0].open);
  CHECK(data.syncs[0].stack == 9);
  CHECK(data.syncs[0].attribution == Attribution::exact);
  CHECK(data.syncs[0].cbid == 126);
  CHECK(data.syncs[0].context == 1);
  CHECK(data.counters.launches == 0);
  REQUIRE(observed.size() == 1);
  CHECK(observed[0].start_ns == kArmed + 10);
  CHECK(observed[0].end_ns == kArmed + 1010);
}

TEST_CASE("a call counts with what of it lies in the window") {
  Session s;
  open(s, 1, kArmed + 100, kArmed + 200);
  open(s, 2, kArmed + 150, kArmed + 400);
  open(s, 3, kArmed + 300, kArmed + 500);
  s.joiner.on_sync(sync_call(5, kArmed + 50));
  SECTION("it returned") {
    s.joiner.on_returned(sync_returned(5, kArmed + 300));
    const WindowData first = close(s, 1, kArmed + 200);
    CHECK(sync_ns(first) == 100);
    CHECK(first.syncs.at(0).open);
    const WindowData second = close(s, 2, kArmed + 400);
    CHECK(sync_ns(second) == 150);
    CHECK_FALSE(second.syncs.at(0).open);
    CHECK(close(s, 3, kArmed + 500).syncs.empty());
  }
  SECTION("it goes on") {
    const WindowData first = close(s, 1, kArmed + 200);
    CHECK(sync_ns(first) == 100);
    CHECK(first.counters.syncs_open == 1);
    s.joiner.on_returned(sync_returned(5, kArmed + 310));
    CHECK(sync_ns(close(s, 2, kArmed + 400)) == 160);
    CHECK(sync_ns(close(s, 3, kArmed + 500)) == 10);
  }
  SECTION("the session ended in it") {
    s.joiner.on_session_end(kArmed + 320);
    CHECK(sync_ns(close(s, 2, kArmed + 400)) == 170);
    CHECK(sync_ns(close(s, 3, kArmed + 500)) == 20);
  }
}

TEST_CASE("of the calls of one place, the one that goes on stands apart from those that returned") {
  const bool sampled = GENERATE(true, false);
  Session s;
  open(s);
  const StackId stack = sampled ? 9 : 0;
  for (std::uint32_t i = 0; i < 4; ++i) {
    s.joiner.on_sync(sync_call(1 + i, kT1 - 1000 + 100 * i, sampled));
    if (sampled) s.joiner.on_stack(1 + i, 5, stack, StackEnding::rooted);
    if (i < 3) s.joiner.on_returned(sync_returned(1 + i, kT1 - 990 + 100 * i));
  }
  const WindowData data = close(s);
  REQUIRE(data.syncs.size() == 2);
  CHECK(sync_ns(data) == 3 * 10 + 700);
  for (const SyncSample& sync : data.syncs) {
    CHECK(sync.calls == (sync.open ? 1 : 3));
    CHECK(sync.ns == (sync.open ? 700 : 30));
    CHECK(sync.stack == stack);
  }
  CHECK(data.syncs[0].open != data.syncs[1].open);
  CHECK(data.counters.syncs_open == 1);
}

TEST_CASE("past the limit on samples calls are merged, and the one that goes on still stands apart") {
  Limits limits;
  limits.sync_cells_max = 1;
  Session s(limits);
  open(s);
  for (std::uint32_t i = 0; i < 4; ++i) {
    s.joiner.on_sync(sync_call(1 + i, kT1 - 100, false, 100 + i));
    if (i < 3) s.joiner.on_returned(sync_returned(1 + i, kT1 - 90));
  }
  const WindowData data = close(s);
  CHECK(sync_ns(data) == 130);
  CHECK(data.counters.sync_cells_merged == 3);
  REQUIRE(data.syncs.size() == 3);
  std::uint64_t open_ns = 0;
  for (const SyncSample& sync : data.syncs) open_ns += sync.open ? sync.ns : 0;
  CHECK(open_ns == 100);
}

TEST_CASE("calls without a stack of their own are spread over those of their key, to the last nanosecond") {
  Session s;
  open(s);
  for (std::uint32_t i = 0; i < 3; ++i) s.joiner.on_stack(900 + i, 5, i < 2 ? 11 : 12, StackEnding::rooted);
  std::uint64_t expected = 0;
  for (std::uint32_t i = 0; i < 100; ++i) {
    s.joiner.on_sync(sync_call(1 + i, kArmed + i * 1000));
    s.joiner.on_returned(sync_returned(1 + i, kArmed + i * 1000 + 7 * i + 1));
    expected += 7 * i + 1;
  }
  const WindowData data = close(s);
  REQUIRE(data.syncs.size() == 2);
  CHECK(sync_ns(data) == expected);
  CHECK(data.syncs[0].calls + data.syncs[1].calls == 100);
  CHECK(data.syncs[0].attribution == Attribution::context);
}

TEST_CASE("a call whose return is lost ends with the next of its thread, and says so") {
  Session s;
  open(s);
  s.drains(1);
  s.joiner.on_sync(sync_call(5, kArmed + 10));
  s.joiner.on_sync(sync_call(6, kArmed + 500));
  s.joiner.on_sync(sync_call(7, kArmed + 10, false, 101));  // another thread's
  SECTION("its return comes from another ring in the next drain") {
    s.drains(1);
    s.joiner.on_returned(sync_returned(5, kArmed + 110));
    s.joiner.on_returned(sync_returned(6, kArmed + 600));
    s.joiner.on_returned(sync_returned(7, kArmed + 110));
    s.drains(5);
    const WindowData data = close(s);
    CHECK(sync_ns(data) == 300);
    CHECK(data.counters.syncs_lost == 0);
  }
  SECTION("it never comes") {
    s.drains(5);
    s.joiner.on_returned(sync_returned(6, kArmed + 600));
    s.joiner.on_returned(sync_returned(7, kArmed + 110));
    const WindowData data = close(s);
    CHECK(sync_ns(data) == 200);
    CHECK(data.counters.syncs_lost == 1);
    CHECK(data.counters.syncs_open == 0);
  }
}

TEST_CASE("open calls are bounded, the oldest leaves and is counted") {
  Limits limits;
  limits.syncs_max = 4;
  Session s(limits);
  open(s);
  for (std::uint32_t i = 0; i < 10; ++i) s.joiner.on_sync(sync_call(1 + i, kArmed + i, false, 100 + i));
  const WindowData data = close(s);
  CHECK(data.counters.syncs_lost == 6);
  CHECK(data.counters.syncs_open == 4);
}

TEST_CASE("a stack that does not come is given up, and the call counts by its key") {
  Session s;
  open(s);
  s.joiner.on_sync(sync_call(5, kArmed + 10, true));
  s.joiner.on_returned(sync_returned(5, kArmed + 110));
  CHECK(s.joiner.settlement(kWindow).syncs_without_stack == 1);
  s.drains(220);
  CHECK(s.joiner.settlement(kWindow).executions_settled());
  const WindowData data = close(s);
  CHECK(sync_ns(data) == 100);
  CHECK(data.syncs.at(0).attribution == Attribution::unsampled);
  CHECK(data.counters.stacks_given_up == 1);
}

TEST_CASE("a copy that waits is a synchronisation call, too") {
  constexpr std::uint32_t kMemcpyDtoH = 278, kMemcpyDtoHAsync = 279, kMemcpyDtoD = 280;
  Session s;
  open(s);
  const auto copy = [&](std::uint32_t id, std::uint32_t cbid, std::uint32_t kind, std::uint64_t until) {
    s.joiner.on_launch(copy_call(id, kArmed + 100, cbid));
    s.joiner.on_execution(copy_execution(id, kArmed + 200, kArmed + 300, kind));
    s.joiner.on_returned(returned(id, kArmed + until));
  };
  SECTION("by its name") {
    copy(1, kMemcpyDtoH, kDtoH, 320);
    const WindowData data = close(s);
    REQUIRE(data.syncs.size() == 1);
    CHECK(data.syncs[0].ns == 220);
    CHECK(data.syncs[0].cbid == kMemcpyDtoH);
    CHECK(data.samples.at(0).launch_ns == 220);
  }
  SECTION("asynchronous, of pageable memory: it was over when the call returned") {
    copy(1, kMemcpyDtoHAsync, kDtoH, 320);
    CHECK(sync_ns(close(s)) == 220);
  }
  SECTION("asynchronous indeed") {
    copy(1, kMemcpyDtoHAsync, kDtoH, 110);
    CHECK(close(s).syncs.empty());
  }
  SECTION("within the device: it does not wait") {
    copy(1, kMemcpyDtoD, 8, 110);
    CHECK(close(s).syncs.empty());
  }
  SECTION("still under way at the window's end") {
    s.joiner.on_launch(copy_call(1, kT1 - 100, kMemcpyDtoH));
    const WindowData data = close(s);
    CHECK(sync_ns(data) == 100);
    CHECK(data.counters.syncs_open == 1);
    CHECK(data.counters.pending == 1);
  }
}

}  // namespace
}  // namespace pillion::join
