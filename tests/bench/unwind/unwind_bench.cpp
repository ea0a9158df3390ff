// SPDX-License-Identifier: Apache-2.0
// Frames per second, cold and warm, over real snapshots of this program: 60 calls deep through code of
// several builds.
#include <benchmark/benchmark.h>

#include <vector>

#include "capture.h"
#include "fake_file_source.h"
#include "modules.h"
#include "unwind/unwinder.h"

using namespace pillion;
using namespace pillion::unwind;
using namespace pillion::test;

namespace {

struct Leaf {
  std::uint64_t stack_high;
  Capture capture;
};

void take(void* argument) {
  auto& leaf = *static_cast<Leaf*>(argument);
  capture_here(leaf.stack_high, leaf.capture);
}

std::vector<RawSnapshot> take_many(unsigned count) {
  std::vector<RawSnapshot> snapshots;
  for (unsigned seed = 0; snapshots.size() < count; ++seed) {
    Leaf leaf{own_stack_high(), {}};
    descend_from_here(seed, 30, take, &leaf);
    if (leaf.capture.snapshot.stack.size() <= 192 * 1024)
      snapshots.push_back(std::move(leaf.capture.snapshot));
  }
  return snapshots;
}

void unwind_warm(benchmark::State& state) {
  const auto snapshots = take_many(static_cast<unsigned>(state.range(0)));
  const auto maps = MapsTable::parse(own_maps());
  FileTable files;
  FakeFileSource source;
  Unwinder unwinder(files, source);
  for (const auto& snapshot : snapshots) (void)unwinder.unwind(snapshot, maps, 1);
  std::size_t frames = 0;
  std::size_t next = 0;
  for (auto _ : state) {
    const auto outcome = unwinder.unwind(snapshots[next], maps, 1);
    next = next + 1 == snapshots.size() ? 0 : next + 1;
    frames += outcome.stack.frames.size();
  }
  state.SetItemsProcessed(static_cast<std::int64_t>(frames));
  state.counters["frames_per_stack"] = static_cast<double>(frames) / static_cast<double>(state.iterations());
  state.counters["ns_per_frame"] = benchmark::Counter(
      static_cast<double>(frames) * 1e-9, benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
}
// One snapshot: everything in the cache. Many: snapshots come from memory, as they do from the ring.
BENCHMARK(unwind_warm)->Arg(1)->Arg(16)->Arg(2000);

void unwind_cold(benchmark::State& state) {
  const auto snapshots = take_many(100);
  const auto maps = MapsTable::parse(own_maps());
  std::size_t frames = 0;
  std::size_t rows = 0;
  for (auto _ : state) {
    FileTable files;
    FakeFileSource source;
    Unwinder unwinder(files, source);
    for (const auto& snapshot : snapshots) frames += unwinder.unwind(snapshot, maps, 1).stack.frames.size();
    rows += unwinder.counters().rows_computed;
  }
  state.SetItemsProcessed(static_cast<std::int64_t>(frames));
  state.counters["rows_computed"] = static_cast<double>(rows) / static_cast<double>(state.iterations());
}
// All files opened and every row computed anew: 100 stacks.
BENCHMARK(unwind_cold)->Unit(benchmark::kMillisecond);

}  // namespace
