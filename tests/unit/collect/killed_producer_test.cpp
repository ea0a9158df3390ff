// SPDX-License-Identifier: Apache-2.0
// A producer in another process is killed, or stopped, at any moment: what it published is read, nothing
// waits.
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>

#include <catch2/catch_test_macros.hpp>

#include "base/clock.h"
#include "collect/collector.h"
#include "test_rings.h"

using namespace pillion;
using namespace pillion::collect;

namespace {

// Pushes numbered launches, or snapshots whose bytes repeat their number, until it is killed.
[[noreturn]] void produce(const TestRings& shared) {
  TestProducer events(shared.rings().events, 0);
  TestProducer stacks(shared.rings().stacks, 0);
  std::vector<std::byte> record(snapshot_record(0, std::vector<std::byte>(512)));
  for (std::uint32_t i = 0;; ++i) {
    if (i % 4 == 0) {
      std::memset(record.data() + sizeof(pillion_snapshot), static_cast<int>(i / 4 % 251), 512);
      const std::uint32_t number = i / 4;
      std::memcpy(record.data() + offsetof(pillion_snapshot, correlation), &number, sizeof(number));
      while (!stacks.push(record)) {
      }
    }
    const auto launch = launch_record(i);
    while (!events.push(launch)) {
    }
  }
}

struct CheckingSink final : RecordSink {
  void on_launch(const RawLaunch& launch) override { wrong += launch.correlation == launches++ ? 0 : 1; }
  void on_snapshot(RawSnapshot snapshot) override {
    const auto expected = static_cast<std::byte>(snapshots % 251);
    bool good = snapshot.correlation == snapshots && snapshot.stack.size() == 512;
    for (const std::byte b : snapshot.stack) good = good && b == expected;
    wrong += good ? 0 : 1;
    ++snapshots;
  }
  void on_launch_failed(const RawLaunchFailed&) override { ++wrong; }
  void on_returned(const RawReturned&) override { ++wrong; }
  void on_sync(const RawSync&) override { ++wrong; }
  void on_execution(const RawExecution&) override { ++wrong; }
  void on_overhead(const RawOverhead&) override { ++wrong; }
  void on_name(RawName) override { ++wrong; }
  void on_thread(RawThread) override { ++wrong; }
  void on_device(RawDevice) override { ++wrong; }
  void on_context(const RawContext&) override { ++wrong; }
  void on_python_code(RawPythonCode) override { ++wrong; }
  std::uint32_t launches = 0;
  std::uint32_t snapshots = 0;
  std::uint32_t wrong = 0;
};

}  // namespace

TEST_CASE("100 producers killed at any moment leave no hole and no wait") {
  for (std::uint32_t round = 0; round < 100; ++round) {
    const TestRings shared({});
    ModuleStore modules;
    Collector collector(1, shared.rings(), modules);
    CheckingSink sink;
    const pid_t child = ::fork();
    REQUIRE(child >= 0);
    if (child == 0) produce(shared);
    // Killed after a number of records of its own each round, so at other places of its loop.
    while (sink.launches < 50 + round * 37) (void)collector.drain(sink);
    REQUIRE(::kill(child, SIGKILL) == 0);
    REQUIRE(::waitpid(child, nullptr, 0) == child);
    while (collector.drain(sink).bytes > 0) {
    }
    CHECK(sink.wrong == 0);
    CHECK(collector.counts().ring_resets == 0);
    CHECK(collector.counts().events.malformed + collector.counts().stacks.malformed == 0);
    // All that it published has arrived.
    const pillion_ring& events = shared.rings().events.rings[0];
    CHECK(events.head == events.tail);
    CHECK(events.head == sink.launches * sizeof(pillion_launch));
  }
}

TEST_CASE("a stopped producer stalls no drain") {
  const TestRings shared({});
  ModuleStore modules;
  Collector collector(1, shared.rings(), modules);
  CheckingSink sink;
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) produce(shared);
  while (sink.launches < 1'000) (void)collector.drain(sink);
  REQUIRE(::kill(child, SIGSTOP) == 0);
  int status = 0;
  REQUIRE(::waitpid(child, &status, WUNTRACED) == child);
  while (collector.drain(sink).bytes > 0) {
  }
  const std::uint32_t seen = sink.launches;
  const std::uint64_t start = monotonic_ns();
  for (int i = 0; i < 100; ++i) (void)collector.drain(sink);
  CHECK(monotonic_ns() - start < 1'000'000'000);
  CHECK(sink.launches == seen);
  REQUIRE(::kill(child, SIGCONT) == 0);
  while (sink.launches < seen + 1'000) (void)collector.drain(sink);
  REQUIRE(::kill(child, SIGKILL) == 0);
  REQUIRE(::waitpid(child, nullptr, 0) == child);
  CHECK(sink.wrong == 0);
}
