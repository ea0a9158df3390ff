// SPDX-License-Identifier: Apache-2.0
#include <signal.h>
#include <sys/prctl.h>

#include <catch2/catch_test_macros.hpp>
#include <cerrno>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "system_calls.h"
#include "test_session.h"

using namespace pillion;
using namespace pillion::shim;
using namespace pillion::shim::test;

TEST_CASE("a launch gives one record, a thread record before it and a first snapshot") {
  TestSession test;
  prctl(PR_SET_NAME, "launcher");
  const std::uint64_t before = monotonic_ns();
  launch({307, 11, 0xabcd, 0});
  auto records = test.drain();
  REQUIRE(records[PILLION_RECORD_LAUNCH].size() == 1);
  const auto record = as<pillion_launch>(records[PILLION_RECORD_LAUNCH][0]);
  CHECK(record.correlation == 11);
  CHECK(record.tid == this_tid());
  CHECK(record.function == 0xabcd);
  CHECK(record.cbid == 307);
  CHECK(record.kind == PILLION_LAUNCH_KERNEL);
  CHECK(record.flags == PILLION_LAUNCH_SNAPSHOT);
  CHECK(record.time_ns >= before);
  CHECK(record.time_ns <= monotonic_ns());
  REQUIRE(records[PILLION_RECORD_SNAPSHOT].size() == 1);
  const auto snapshot = as<pillion_snapshot>(records[PILLION_RECORD_SNAPSHOT][0]);
  CHECK(snapshot.correlation == 11);
  CHECK(snapshot.context_key == record.context_key);
  REQUIRE(records[PILLION_RECORD_THREAD].size() == 1);
  const auto thread = as<pillion_thread>(records[PILLION_RECORD_THREAD][0]);
  CHECK(thread.tid == this_tid());
  CHECK(std::string(thread.comm) == "launcher");
  CHECK(thread.stack_low < reinterpret_cast<std::uint64_t>(&record));
  CHECK(thread.stack_high > reinterpret_cast<std::uint64_t>(&record));
  CHECK(test.counter(&pillion_counters::launches) == 1);
  CHECK(test.counter(&pillion_counters::snapshots) == 1);
}

TEST_CASE("the same launch again has the same key and no first snapshot") {
  TestSession test;
  std::set<std::uint64_t> keys;
  for (std::uint32_t i = 1; i <= 5; ++i) launch({307, i, 0xabcd, 0});
  auto records = test.drain();
  REQUIRE(records[PILLION_RECORD_LAUNCH].size() == 5);
  for (const Bytes& bytes : records[PILLION_RECORD_LAUNCH])
    keys.insert(as<pillion_launch>(bytes).context_key);
  CHECK(keys.size() == 1);
  CHECK(records[PILLION_RECORD_THREAD].size() == 1);
  CHECK(records[PILLION_RECORD_SNAPSHOT].size() <= 2);  // the first, and perhaps a random one
}

TEST_CASE("kinds and handles by callback id") {
  TestSession test;
  launch({652, 1, 0x10, 0});  // cuLaunchKernelEx: the function is the second parameter
  launch({514, 2, 0x20, 0});  // cuGraphLaunch
  launch({277, 3, 0x30, 0});  // cuMemcpyHtoDAsync_v2
  launch({249, 4, 0x40, 0});  // cuMemsetD8_v2
  launch({527, 5, 0x50, 0});  // cuLaunchHostFunc
  launch({1, 6, 0x60, 0});    // cuInit: not ours
  auto records = test.drain();
  REQUIRE(records[PILLION_RECORD_LAUNCH].size() == 5);
  const auto at = [&](std::size_t i) { return as<pillion_launch>(records[PILLION_RECORD_LAUNCH][i]); };
  CHECK((at(0).kind == PILLION_LAUNCH_KERNEL && at(0).function == 0x11));
  CHECK((at(1).kind == PILLION_LAUNCH_GRAPH && at(1).function == 0x20));
  CHECK((at(2).kind == PILLION_LAUNCH_COPY && at(2).function == 0));
  CHECK((at(3).kind == PILLION_LAUNCH_SET && at(3).function == 0));
  CHECK((at(4).kind == PILLION_LAUNCH_HOST && at(4).function == 0x51));
}

TEST_CASE("a host function has a record and no stack") {
  TestSession test;
  launch({527, 1, 0x50, 0});
  auto records = test.drain();
  CHECK(records[PILLION_RECORD_LAUNCH].size() == 1);
  CHECK(records[PILLION_RECORD_SNAPSHOT].empty());
}

TEST_CASE("before a context ends CUPTI is asked for all it has") {
  TestSession test;
  launch({322, 1, 0, 0});
  CHECK(g_flushes == 1);
  CHECK(test.drain().empty());
}

TEST_CASE("a call that failed says so") {
  TestSession test;
  launch({307, 21, 1, 0});
  launch({307, 22, 1, 719});
  auto records = test.drain();
  REQUIRE(records[PILLION_RECORD_LAUNCH_FAILED].size() == 1);
  const auto failed = as<pillion_launch_failed>(records[PILLION_RECORD_LAUNCH_FAILED][0]);
  CHECK(failed.correlation == 22);
  CHECK(failed.result == 719);
  CHECK(test.counter(&pillion_counters::launches) == 2);
  CHECK(test.counter(&pillion_counters::launches_failed) == 1);
}

TEST_CASE("every launch is a record or a counted drop") {
  TestSession test(4096);
  test.session().stacks_wanted = false;
  for (std::uint32_t i = 0; i < 500; ++i) launch({307, i, 1, 0});
  const auto records = test.drain();
  const std::uint64_t pushed = records.at(PILLION_RECORD_LAUNCH).size();
  CHECK(pushed < 500);
  CHECK(test.counter(&pillion_counters::launches) == 500);
  CHECK(pushed + test.counter(&pillion_counters::launches_dropped_full) +
            test.counter(&pillion_counters::launches_dropped_busy) ==
        500);
}

TEST_CASE("a thread record that found no room comes with a later launch") {
  TestSession test(4096);
  test.session().stacks_wanted = false;
  for (std::uint32_t i = 0; i < 100; ++i) launch({307, i, 1, 0});  // this thread fills the ring
  std::thread([&] {
    launch({307, 1000, 1, 0});
    CHECK(test.counter(&pillion_counters::other_dropped) == 1);
    (void)test.drain();
    launch({307, 1001, 1, 0});
    CHECK(test.drain()[PILLION_RECORD_THREAD].size() == 1);
  }).join();
}

TEST_CASE("without a session nothing is touched") {
  g_session = nullptr;
  launch({307, 1, 1, 0});
  SUCCEED();
}

TEST_CASE("a callback that is late by a session writes nothing into the next") {
  TestSession test;
  test.session().number = 0;  // ended: between the callback's look at g_session and its push
  launch({307, 1, 1, 0});
  CHECK(test.drain().empty());
  CHECK(test.counter(&pillion_counters::launches) == 0);
}

TEST_CASE("a launch keeps errno") {
  TestSession test;
  std::thread([&] {
    errno = 4711;
    launch({307, 1, 1, 0});
    CHECK(errno == 4711);
  }).join();
}

TEST_CASE("the handlers' time is accounted for") {
  TestSession test;
  for (std::uint32_t i = 0; i < 6400; ++i) launch({307, i, 1, 0});
  (void)test.drain();
  const std::uint64_t calls = test.counter(&pillion_counters::handler_calls);
  CHECK(calls > 6000);
  CHECK(calls < 6800);
  CHECK(test.counter(&pillion_counters::handler_ns) > 0);
  CHECK(test.counter(&pillion_counters::handler_ns) >= test.counter(&pillion_counters::snapshot_ns));
}

TEST_CASE("a fatal error of CUPTI is noticed") {
  forget_cupti_loss();
  cupti::StateData state{999, "gone"};
  subscriber_callback(nullptr, cupti::kDomainState, cupti::kStateWarning, &state);
  CHECK_FALSE(cupti_is_lost());
  subscriber_callback(nullptr, cupti::kDomainState, cupti::kStateFatalError, &state);
  CHECK(cupti_is_lost());
  forget_cupti_loss();
}

namespace {

void launch_in_signal(int) { launch({307, 777, 1, 0}); }

}  // namespace

TEST_CASE("threads launch at once, every record arrives whole") {
  TestSession test(4 << 20);
  constexpr std::uint32_t kThreads = 4;
  constexpr std::uint32_t kLaunches = 5000;
  std::vector<std::thread> threads;
  for (std::uint32_t t = 0; t < kThreads; ++t) {
    threads.emplace_back([t] {
      for (std::uint32_t i = 0; i < kLaunches; ++i) launch({307, t * kLaunches + i, 0x1000 + i % 7, 0});
    });
  }
  for (std::thread& thread : threads) thread.join();
  auto records = test.drain();
  std::set<std::uint32_t> correlations;
  for (const Bytes& bytes : records[PILLION_RECORD_LAUNCH]) {
    correlations.insert(as<pillion_launch>(bytes).correlation);
  }
  CHECK(correlations.size() == records[PILLION_RECORD_LAUNCH].size());
  CHECK(correlations.size() + test.counter(&pillion_counters::launches_dropped_busy) +
            test.counter(&pillion_counters::launches_dropped_full) ==
        kThreads * kLaunches);
  CHECK(test.counter(&pillion_counters::launches) == kThreads * kLaunches);
}

TEST_CASE("a launch in a signal handler on a signal stack is recorded and marked") {
  TestSession test;
  std::vector<std::uint8_t> memory(64 * 1024);
  std::thread([&] {
    stack_t stack{};
    stack.ss_sp = memory.data();
    stack.ss_size = memory.size();
    REQUIRE(sigaltstack(&stack, nullptr) == 0);
    struct sigaction action {};
    struct sigaction old {};
    action.sa_handler = launch_in_signal;
    action.sa_flags = SA_ONSTACK;
    REQUIRE(sigaction(SIGUSR1, &action, &old) == 0);
    pthread_kill(pthread_self(), SIGUSR1);
    sigaction(SIGUSR1, &old, nullptr);
    stack.ss_flags = SS_DISABLE;
    sigaltstack(&stack, nullptr);
  }).join();
  auto records = test.drain();
  REQUIRE(records[PILLION_RECORD_LAUNCH].size() == 1);
  REQUIRE(records[PILLION_RECORD_SNAPSHOT].size() == 1);
  CHECK((as<pillion_snapshot>(records[PILLION_RECORD_SNAPSHOT][0]).flags & PILLION_SNAPSHOT_FOREIGN) != 0);
}
