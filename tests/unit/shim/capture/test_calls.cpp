// SPDX-License-Identifier: Apache-2.0
// What the return of a call adds, and calls that wait for the GPU.
#include <signal.h>

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <thread>
#include <vector>

#include "system_calls.h"
#include "test_session.h"

using namespace pillion;
using namespace pillion::shim;
using namespace pillion::shim::test;

namespace {

constexpr std::uint32_t kStreamSynchronize = 126;
constexpr std::uint32_t kSyncIds[] = {17, 121, 126, 440, 800};

template <typename T>
std::vector<T> all(std::map<std::uint16_t, std::vector<Bytes>>& records, std::uint16_t type) {
  std::vector<T> out;
  for (const Bytes& bytes : records[type]) out.push_back(as<T>(bytes));
  return out;
}

}  // namespace

TEST_CASE("a launch's return comes when it is asked for, with the time of the return") {
  TestSession test;
  launch({307, 10, 0xabcd, 0});
  CHECK(test.drain()[PILLION_RECORD_RETURNED].empty());
  test.session().calls_wanted = true;
  const std::uint64_t before = monotonic_ns();
  launch({307, 11, 0xabcd, 0});
  auto records = test.drain();
  const auto launches = all<pillion_launch>(records, PILLION_RECORD_LAUNCH);
  const auto returns = all<pillion_returned>(records, PILLION_RECORD_RETURNED);
  REQUIRE(launches.size() == 1);
  REQUIRE(returns.size() == 1);
  CHECK((launches[0].flags & PILLION_LAUNCH_RETURNS) != 0);
  CHECK(returns[0].correlation == 11);
  CHECK(returns[0].flags == 0);
  CHECK(launches[0].time_ns >= before);
  CHECK(returns[0].time_ns >= launches[0].time_ns);
  CHECK(returns[0].time_ns <= monotonic_ns());
}

TEST_CASE("a launch that failed, and a host function, tell no return") {
  TestSession test;
  test.session().calls_wanted = true;
  launch({307, 1, 1, 719});
  launch({527, 2, 1, 0});
  auto records = test.drain();
  CHECK(records[PILLION_RECORD_LAUNCH_FAILED].size() == 1);
  CHECK(records[PILLION_RECORD_RETURNED].empty());
}

TEST_CASE("with synchronisation calls alone the returns of copies are told, those of kernels not") {
  TestSession test;
  test.session().syncs_wanted = true;
  launch({307, 1, 1, 0});
  launch({278, 2, 1, 0});
  auto records = test.drain();
  const auto returns = all<pillion_returned>(records, PILLION_RECORD_RETURNED);
  REQUIRE(returns.size() == 1);
  CHECK(returns[0].correlation == 2);
}

TEST_CASE("calls nested in each other return each by itself") {
  TestSession test;
  test.session().calls_wanted = true;
  std::uint64_t outer = 0, inner = 0;
  make_callback({307, 1, 1, 0}, cupti::kApiEnter, &outer);
  make_callback({307, 2, 1, 0}, cupti::kApiEnter, &inner);
  make_callback({307, 2, 1, 0}, cupti::kApiExit, &inner);
  make_callback({307, 1, 1, 0}, cupti::kApiExit, &outer);
  auto records = test.drain();
  const auto returns = all<pillion_returned>(records, PILLION_RECORD_RETURNED);
  REQUIRE(returns.size() == 2);
  CHECK(returns[0].correlation == 2);
  CHECK(returns[1].correlation == 1);
}

TEST_CASE("a return is told only in the session that has the call's record") {
  std::uint64_t kept = 0;
  {
    TestSession test;
    test.session().calls_wanted = true;
    make_callback({307, 1, 1, 0}, cupti::kApiEnter, &kept);
  }
  TestSession next;
  next.session().calls_wanted = true;
  make_callback({307, 1, 1, 0}, cupti::kApiExit, &kept);
  std::uint64_t never = 0x1234;  // armed in the middle of the call
  make_callback({307, 2, 1, 0}, cupti::kApiExit, &never);
  CHECK(next.drain()[PILLION_RECORD_RETURNED].empty());
  CHECK(next.counter(&pillion_counters::returns_dropped) == 0);
}

TEST_CASE("a child that was forked within a call tells no return") {
  TestSession test;
  test.session().calls_wanted = true;
  std::uint64_t kept = 0;
  make_callback({307, 1, 1, 0}, cupti::kApiEnter, &kept);
  g_inert = true;
  make_callback({307, 1, 1, 0}, cupti::kApiExit, &kept);
  g_inert = false;
  CHECK(test.drain()[PILLION_RECORD_RETURNED].empty());
}

TEST_CASE("the handlers' time has the return's in it, however many launches carry a stack") {
  const auto ns_per_call = [](bool calls) {
    TestSession test;
    test.session().stacks_wanted = false;
    test.session().calls_wanted = calls;
    for (std::uint32_t i = 0; i < 64'000; ++i) {
      launch({307, i, 1, 0});
      if (i % 4000 == 0) (void)test.drain();
    }
    return static_cast<double>(test.counter(&pillion_counters::handler_ns)) /
           static_cast<double>(test.counter(&pillion_counters::handler_calls));
  };
  double without = 1e9, with = 1e9;
  for (int round = 0; round < 5; ++round) {  // the least of some: others use the machine, too
    without = std::min(without, ns_per_call(false));
    with = std::min(with, ns_per_call(true));
  }
  CHECK(with > without);
  CHECK(with < 10 * without);
}

TEST_CASE("a launch without room tells no return, a return without room is counted") {
  TestSession test(4096);
  test.session().stacks_wanted = false;
  test.session().calls_wanted = true;
  for (std::uint32_t i = 0; i < 500; ++i) launch({307, i, 1, 0});
  auto records = test.drain();
  const auto launches = records[PILLION_RECORD_LAUNCH].size();
  CHECK(records[PILLION_RECORD_RETURNED].size() + test.counter(&pillion_counters::returns_dropped) ==
        launches);
  CHECK(test.counter(&pillion_counters::launches) == 500);
}

TEST_CASE("a synchronisation call has a record when it begins and one when it returns, and a stack") {
  for (const std::uint32_t cbid : kSyncIds) {
    CAPTURE(cbid);
    TestSession test;
    test.session().syncs_wanted = true;
    std::uint64_t kept = 0;
    const Call call{cbid, 21, 0, 700};  // what it returns does not matter: the time was spent
    make_callback(call, cupti::kApiEnter, &kept);
    auto records = test.drain();
    const auto syncs = all<pillion_sync>(records, PILLION_RECORD_SYNC);
    REQUIRE(syncs.size() == 1);
    CHECK(syncs[0].correlation == 21);
    CHECK(syncs[0].cbid == cbid);
    CHECK(syncs[0].context == 3);
    CHECK(syncs[0].tid == this_tid());
    CHECK(syncs[0].flags == (PILLION_LAUNCH_SNAPSHOT | PILLION_LAUNCH_RETURNS));
    REQUIRE(records[PILLION_RECORD_SNAPSHOT].size() == 1);
    CHECK(as<pillion_snapshot>(records[PILLION_RECORD_SNAPSHOT][0]).context_key == syncs[0].context_key);
    CHECK(as<pillion_snapshot>(records[PILLION_RECORD_SNAPSHOT][0]).correlation == 21);
    make_callback(call, cupti::kApiExit, &kept);
    records = test.drain();
    const auto returns = all<pillion_returned>(records, PILLION_RECORD_RETURNED);
    REQUIRE(returns.size() == 1);
    CHECK(returns[0].flags == PILLION_RETURNED_SYNC);
    CHECK(returns[0].time_ns >= syncs[0].time_ns);
    CHECK(test.counter(&pillion_counters::syncs) == 1);
    CHECK(test.counter(&pillion_counters::launches) == 0);
  }
}

TEST_CASE("a spin of synchronisation calls takes no stack from the launches") {
  const auto snapshots_of_launches = [](bool spin) {
    TestSession test(8 << 20);
    test.session().syncs_wanted = true;
    g_sync_sampler.begin({100, 64, 196608, 1.0 / 8});
    g_sampler.begin({100, 64, 196608, 7.0 / 8});
    std::size_t taken = 0;
    for (std::uint32_t i = 0; i < 2000; ++i) {
      if (spin) {
        for (std::uint32_t k = 0; k < 20; ++k) launch({kStreamSynchronize, 100'000 + 20 * i + k, 0, 0});
      }
      launch({307, i, 1 + i % 3, 0});
      if (i % 100 == 99) {
        auto records = test.drain();
        for (const Bytes& bytes : records[PILLION_RECORD_LAUNCH])
          taken += (as<pillion_launch>(bytes).flags & PILLION_LAUNCH_SNAPSHOT) != 0 ? 1 : 0;
      }
    }
    return taken;
  };
  const auto alone = snapshots_of_launches(false);
  const auto beside = snapshots_of_launches(true);
  CHECK(alone > 10);
  CHECK(beside >= alone / 2);
}

TEST_CASE("a synchronisation call without room is counted") {
  TestSession test(4096);
  test.session().stacks_wanted = false;
  test.session().syncs_wanted = true;
  for (std::uint32_t i = 0; i < 500; ++i) launch({kStreamSynchronize, i, 0, 0});
  auto records = test.drain();
  CHECK(test.counter(&pillion_counters::syncs) == 500);
  CHECK(records[PILLION_RECORD_SYNC].size() + test.counter(&pillion_counters::syncs_dropped) == 500);
  CHECK(test.counter(&pillion_counters::launches_dropped_full) == 0);
}
