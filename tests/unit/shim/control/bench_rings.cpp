// SPDX-License-Identifier: Apache-2.0
//
// What one launch record costs in the shim: clock, record, push and counter, without gettid; and pushes flat
// out.
#include <benchmark/benchmark.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

#include "ring_writer.h"
#include "shared_region.h"
#include "system_calls.h"

namespace {

using namespace pillion::shim;
using pillion::shim::test::SharedRegion;

// Rings of the sidecar's default size and a reader that only gives room back, every millisecond.
struct Session {
  SharedRegion region{{.ring_count = 16, .ring_bytes = 512 * 1024}};
  std::unique_ptr<RingSet> rings{new RingSet{}};
  std::vector<pillion_counters> counters{kCounterShards};
  std::atomic<bool> stop{false};
  std::thread reader;

  Session() {
    rings->open(region.base(), region.header());
    reader = std::thread([this] {
      while (!stop.load()) {
        for (std::uint32_t i = 0; i < 16; ++i) {
          const auto head =
              std::atomic_ref<std::uint64_t>(region.ring(i).head).load(std::memory_order_acquire);
          std::atomic_ref<std::uint64_t>(region.ring(i).tail).store(head, std::memory_order_release);
        }
        sleep_ns(1'000'000);
      }
    });
  }
  ~Session() {
    stop.store(true);
    reader.join();
    if (!rings->close(1000)) std::abort();
  }
};

Session& session() {
  static Session instance;
  return instance;
}

pillion_launch launch(std::uint32_t tid, std::uint32_t sequence) {
  pillion_launch made{};
  made.header = {PILLION_RECORD_LAUNCH, 0, sizeof made};
  made.correlation = sequence;
  made.tid = tid;
  return made;
}

void push_only(benchmark::State& state) {
  Session& s = session();
  const std::uint32_t tid = this_tid();
  std::uint32_t sequence = 0;
  std::uint64_t dropped = 0;
  for (auto _ : state) {
    const pillion_launch one = launch(tid, ++sequence);
    dropped += s.rings->push(tid, &one, sizeof one) != PushResult::ok;
  }
  state.SetItemsProcessed(static_cast<std::int64_t>(state.iterations()));
  state.counters["dropped"] = static_cast<double>(dropped);
}

void launch_record(benchmark::State& state) {
  Session& s = session();
  const std::uint32_t tid = this_tid();
  std::uint32_t sequence = 0;
  for (auto _ : state) {
    pillion_launch one = launch(tid, ++sequence);
    one.time_ns = monotonic_ns();
    static_cast<void>(s.rings->push(tid, &one, sizeof one));
    count(s.counters.data(), tid, &pillion_counters::launches);
  }
  state.SetItemsProcessed(static_cast<std::int64_t>(state.iterations()));
}

void clock_only(benchmark::State& state) {
  for (auto _ : state) benchmark::DoNotOptimize(monotonic_ns());
}

// Launches are microseconds apart: the store buffer is empty when the next record's compare-and-swap comes,
// which flat out waits for the last record's stores. What a record costs then is spaced_launch less spacing.
std::uint64_t work(std::uint64_t seed) {
  for (int i = 0; i < 300; ++i) seed = seed * 0x9e37'79b9'7f4a'7c15u + 1;
  return seed;
}

void spacing(benchmark::State& state) {
  std::uint64_t seed = 1;
  for (auto _ : state) benchmark::DoNotOptimize(seed = work(seed));
}

void spaced_launch(benchmark::State& state) {
  Session& s = session();
  const std::uint32_t tid = this_tid();
  std::uint32_t sequence = 0;
  std::uint64_t seed = 1;
  for (auto _ : state) {
    benchmark::DoNotOptimize(seed = work(seed));
    pillion_launch one = launch(tid, ++sequence);
    one.time_ns = monotonic_ns();
    static_cast<void>(s.rings->push(tid, &one, sizeof one));
    count(s.counters.data(), tid, &pillion_counters::launches);
  }
}

BENCHMARK(spacing);
BENCHMARK(spaced_launch);
BENCHMARK(clock_only);
BENCHMARK(push_only)->Threads(1)->Threads(8)->UseRealTime();
BENCHMARK(launch_record)->Threads(1)->Threads(8)->UseRealTime();

}  // namespace

BENCHMARK_MAIN();
