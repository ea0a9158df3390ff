// SPDX-License-Identifier: Apache-2.0
// What the collect thread pays per launch: its record, its execution, one stack in a hundred, a drain every
// 10,000.
#include <benchmark/benchmark.h>

#include <random>
#include <vector>

#include "join/joiner.h"

namespace pillion::join {
namespace {

constexpr std::uint64_t kArmed = 1'000'000'000'000;
constexpr std::uint32_t kPerDrain = 10'000;  // 50 ms at 200,000 launches/s

// range(0): windows open; range(1): launches in flight between call and execution record.
void BM_LaunchAndExecution(benchmark::State& state) {
  Joiner joiner(1);
  joiner.on_session(kArmed);
  for (std::int64_t w = 0; w < state.range(0); ++w) {
    if (!joiner.open_window(static_cast<WindowId>(w), {}, kArmed)) state.SkipWithError("open_window");
  }
  const auto in_flight = static_cast<std::uint32_t>(state.range(1));
  std::mt19937 random(5);
  std::uint32_t id = 1;
  std::uint64_t now = kArmed;
  for (auto _ : state) {
    RawLaunch launch;
    launch.correlation = id;
    launch.tid = 1 + id % 8;
    launch.time_ns = now;
    launch.context_key = id % 40;
    launch.cbid = 307;
    launch.has_snapshot = id % 100 == 0;
    joiner.on_launch(launch);
    if (launch.has_snapshot) joiner.on_stack(id, launch.context_key, 1 + id % 37, StackEnding::rooted);
    if (id > in_flight) {
      RawExecution execution;
      execution.correlation = id - in_flight;
      execution.stream = id % 8;
      execution.name = 1 + random() % 50;
      execution.start_ns = now + 100;
      execution.end_ns = now + 4'000;
      joiner.on_execution(execution);
    }
    now += 5'000;
    if (++id % kPerDrain == 0) joiner.on_drain_cycle(now);
  }
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(BM_LaunchAndExecution)
    ->Args({0, 1'000})
    ->Args({1, 1'000})
    ->Args({1, 20'000})
    ->Args({3, 20'000})
    ->Args({1, 500'000});

// The execution comes before its launch, as when their rings are read in the other order.
void BM_ExecutionFirst(benchmark::State& state) {
  Joiner joiner(1);
  joiner.on_session(kArmed);
  if (!joiner.open_window(1, {}, kArmed)) state.SkipWithError("open_window");
  std::uint32_t id = 1;
  std::uint64_t now = kArmed;
  for (auto _ : state) {
    RawExecution execution;
    execution.correlation = id + 500;
    execution.start_ns = now + 100;
    execution.end_ns = now + 4'000;
    joiner.on_execution(execution);
    RawLaunch launch;
    launch.correlation = id;
    launch.time_ns = now;
    joiner.on_launch(launch);
    now += 5'000;
    if (++id % kPerDrain == 0) joiner.on_drain_cycle(now);
  }
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(BM_ExecutionFirst);

// A graph of 54 kernels, replayed.
void BM_GraphNodes(benchmark::State& state) {
  Joiner joiner(1);
  joiner.on_session(kArmed);
  if (!joiner.open_window(1, {}, kArmed)) state.SkipWithError("open_window");
  std::uint32_t id = 1;
  std::uint64_t now = kArmed;
  for (auto _ : state) {
    RawLaunch launch;
    launch.correlation = id;
    launch.time_ns = now;
    launch.kind = LaunchKind::graph;
    joiner.on_launch(launch);
    for (std::uint32_t node = 0; node < 54; ++node) {
      RawExecution execution;
      execution.correlation = id;
      execution.start_ns = now + 100;
      execution.end_ns = now + 4'000;
      execution.name = 1 + node;
      execution.graph = 1;
      joiner.on_execution(execution);
    }
    now += 5'000;
    if (++id % 200 == 0) joiner.on_drain_cycle(now);
  }
  state.SetItemsProcessed(state.iterations() * 54);
}
BENCHMARK(BM_GraphNodes);

}  // namespace
}  // namespace pillion::join
