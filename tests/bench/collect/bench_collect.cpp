// SPDX-License-Identifier: Apache-2.0
// How fast the sidecar takes records out of the rings. Goal: 10 M launch records/s, parsed and delivered.
#include <benchmark/benchmark.h>

#include <atomic>
#include <thread>

#include "collect/collector.h"
#include "test_rings.h"

using namespace pillion;
using namespace pillion::collect;

namespace {

TestRings::Sizes default_sizes() { return {16, 512u << 10, 8, 2u << 20, 4, 4'096}; }

void fill(TestProducer& producer) {
  std::uint32_t correlation = 0;
  while (producer.push(launch_record(correlation))) ++correlation;
}

// Sixteen full rings, drained at once: copying, checking and delivering, the filling left out of the time.
void drain_launches(benchmark::State& state) {
  const TestRings shared(default_sizes());
  ModuleStore modules;
  Collector collector(1, shared.rings(), modules);
  std::vector<TestProducer> producers;
  for (std::uint32_t ring = 0; ring < 16; ++ring) producers.emplace_back(shared.rings().events, ring);
  SummingSink sink;
  for (auto _ : state) {
    state.PauseTiming();
    for (TestProducer& producer : producers) fill(producer);
    state.ResumeTiming();
    benchmark::DoNotOptimize(collector.drain(sink));
  }
  state.SetItemsProcessed(static_cast<std::int64_t>(sink.records));
}
BENCHMARK(drain_launches)->UseRealTime()->Unit(benchmark::kMillisecond);

// 128 KiB stacks, as PyTorch's are.
void drain_snapshots(benchmark::State& state) {
  const TestRings shared(default_sizes());
  ModuleStore modules;
  Collector collector(1, shared.rings(), modules);
  TestProducer producer(shared.rings().stacks, 0);
  const auto record = snapshot_record(1, std::vector<std::byte>(128u << 10));
  struct Discard final : RecordSink {
    void on_launch(const RawLaunch&) override {}
    void on_launch_failed(const RawLaunchFailed&) override {}
    void on_returned(const RawReturned&) override {}
    void on_sync(const RawSync&) override {}
    void on_execution(const RawExecution&) override {}
    void on_overhead(const RawOverhead&) override {}
    void on_name(RawName) override {}
    void on_thread(RawThread) override {}
    void on_device(RawDevice) override {}
    void on_context(const RawContext&) override {}
    void on_python_code(RawPythonCode) override {}
    void on_snapshot(RawSnapshot snapshot) override { bytes += snapshot.stack.size(); }
    std::size_t bytes = 0;
  } sink;
  for (auto _ : state) {
    state.PauseTiming();
    while (producer.push(record)) {
    }
    state.ResumeTiming();
    benchmark::DoNotOptimize(collector.drain(sink));
  }
  state.SetBytesProcessed(static_cast<std::int64_t>(sink.bytes));
}
BENCHMARK(drain_snapshots)->UseRealTime()->Unit(benchmark::kMillisecond);

// A producer thread at full speed against a drain at full speed: records that went the whole way.
void ring_throughput(benchmark::State& state) {
  const TestRings shared(default_sizes());
  ModuleStore modules;
  Collector collector(1, shared.rings(), modules);
  SummingSink sink;
  std::atomic<bool> stop{false};
  std::thread thread([&] {
    TestProducer producer(shared.rings().events, 0);
    auto launch = launch_record(0);
    while (!stop.load(std::memory_order_relaxed)) {
      if (producer.push(launch)) {
        ++launch.correlation;
      } else {
        std::this_thread::yield();
      }
    }
  });
  for (auto _ : state) {
    if (collector.drain(sink).bytes == 0) std::this_thread::yield();
  }
  stop = true;
  thread.join();
  state.SetItemsProcessed(static_cast<std::int64_t>(sink.records));
}
BENCHMARK(ring_throughput)->UseRealTime()->Unit(benchmark::kMicrosecond);

// Nothing there: what an idle drain costs.
void drain_empty(benchmark::State& state) {
  const TestRings shared(default_sizes());
  ModuleStore modules;
  Collector collector(1, shared.rings(), modules);
  SummingSink sink;
  for (auto _ : state) benchmark::DoNotOptimize(collector.drain(sink));
}
BENCHMARK(drain_empty);

}  // namespace

BENCHMARK_MAIN();
