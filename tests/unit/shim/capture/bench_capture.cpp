// SPDX-License-Identifier: Apache-2.0
//
// What the launch path costs: ns per launch record (ENTER and EXIT callback together, clock included) and per
// snapshot of 16, 80 and 128 KiB, into rings that a reader drains on another thread.
#include <benchmark/benchmark.h>

#include <atomic>
#include <memory>
#include <thread>

#include "../control/shared_region.h"
#include "capture_session.h"
#include "launch_recorder.h"
#include "stack_snapshot.h"
#include "stamp_clock.h"
#include "system_calls.h"

using namespace pillion;
using namespace pillion::shim;
using pillion::shim::test::SharedRegion;

namespace {

struct Rings {
  SharedRegion events{{PILLION_REGION_EVENTS, 1, 16, 512 * 1024}};
  SharedRegion stacks{{PILLION_REGION_STACKS, 1, 8, 2 << 20}};
  std::unique_ptr<RingSet> event_set = std::make_unique<RingSet>();
  std::unique_ptr<RingSet> stack_set = std::make_unique<RingSet>();
  pillion_counters counters[kCounterShards] = {};
  CuptiApi api{};
  CaptureSession session{};
  std::atomic<bool> stop{false};
  std::thread reader;

  Rings() {
    event_set->open(events.base(), events.header());
    stack_set->open(stacks.base(), stacks.header());
    g_sampler.begin({100, 64, 196608});
    session.events = event_set.get();
    session.stacks = stack_set.get();
    session.counters = counters;
    session.api = &api;
    session.stack_bytes_max = 192 * 1024;
    session.tick = 1;
    session.number = 1;
    g_session = &session;
    g_stamp_clock.begin(processor_clock_is_steady());
    g_stamp_clock.tick();
    sleep_ns(60'000'000);
    g_stamp_clock.tick();
    // Gives the room back without looking: the writer's cost is what is measured.
    reader = std::thread([this] {
      for (int round = 0; !stop; ++round) {
        if (round % 400 == 399) g_stamp_clock.tick();
        for (SharedRegion* region : {&events, &stacks}) {
          for (std::uint32_t i = 0; i < region->header().ring_count; ++i) {
            pillion_ring& ring = region->ring(i);
            const auto head = std::atomic_ref<std::uint64_t>(ring.head).load(std::memory_order_acquire);
            std::atomic_ref<std::uint64_t>(ring.tail).store(head, std::memory_order_release);
          }
        }
        sleep_ns(200'000);
      }
    });
  }
  ~Rings() {
    stop = true;
    reader.join();
    g_session = nullptr;
  }
};

std::unique_ptr<Rings> g_rings;

[[gnu::noinline]] void one_launch(cupti::CallbackData& data) {
  data.callback_site = cupti::kApiEnter;
  subscriber_callback(nullptr, cupti::kDomainDriverApi, 307, &data);
  data.callback_site = cupti::kApiExit;
  subscriber_callback(nullptr, cupti::kDomainDriverApi, 307, &data);
}

// With `calls` the call's return is told, too.
void launch(benchmark::State& state, bool calls) {
  if (state.thread_index() == 0) {
    g_rings = std::make_unique<Rings>();
    g_rings->session.calls_wanted = calls;
  }
  std::uint64_t parameters[2] = {0x1234, 0};
  std::uint32_t result = 0;
  std::uint64_t kept = 0;
  cupti::CallbackData data{};
  data.correlation_data = &kept;
  data.function_params = parameters;
  data.function_return_value = &result;
  for (auto _ : state) {
    ++data.correlation_id;
    one_launch(data);
  }
  if (state.thread_index() == 0) {
    std::uint64_t dropped = 0;
    for (const auto& shard : g_rings->counters)
      dropped += shard.launches_dropped_full + shard.launches_dropped_busy + shard.returns_dropped;
    state.counters["dropped"] = static_cast<double>(dropped);
    g_rings.reset();
  }
}
void launch_records(benchmark::State& state) { launch(state, true); }
BENCHMARK(launch_records);
BENCHMARK(launch_records)->Threads(2)->UseRealTime();

void launch_records_without_returns(benchmark::State& state) { launch(state, false); }
BENCHMARK(launch_records_without_returns);

void sync_records(benchmark::State& state) {
  g_rings = std::make_unique<Rings>();
  g_rings->session.syncs_wanted = true;
  std::uint32_t result = 0;
  std::uint64_t kept = 0;
  cupti::CallbackData data{};
  data.correlation_data = &kept;
  data.function_return_value = &result;
  for (auto _ : state) {
    ++data.correlation_id;
    data.callback_site = cupti::kApiEnter;
    subscriber_callback(nullptr, cupti::kDomainDriverApi, 126, &data);
    data.callback_site = cupti::kApiExit;
    subscriber_callback(nullptr, cupti::kDomainDriverApi, 126, &data);
  }
  g_rings.reset();
}
BENCHMARK(sync_records);

void launch_records_sampled(benchmark::State& state) {
  g_rings = std::make_unique<Rings>();
  g_rings->session.stacks_wanted = true;
  std::uint64_t parameters[2] = {0x1234, 0};
  std::uint32_t result = 0;
  cupti::CallbackData data{};
  data.function_params = parameters;
  data.function_return_value = &result;
  for (auto _ : state) {
    ++data.correlation_id;
    one_launch(data);
  }
  std::uint64_t snapshots = 0;
  for (const auto& shard : g_rings->counters) snapshots += shard.snapshots;
  state.counters["snapshots"] = static_cast<double>(snapshots);
  g_rings.reset();
}
BENCHMARK(launch_records_sampled);

void clock_alone(benchmark::State& state) {
  for (auto _ : state) benchmark::DoNotOptimize(monotonic_ns());
}
BENCHMARK(clock_alone);

void stamp_alone(benchmark::State& state) {
  g_rings = std::make_unique<Rings>();
  for (auto _ : state) benchmark::DoNotOptimize(stamp_ns());
  state.SetLabel(g_stamp_clock.counts() ? "processor's counter" : "clock_gettime");
  g_rings.reset();
}
BENCHMARK(stamp_alone);

void snapshot(benchmark::State& state) {
  g_rings = std::make_unique<Rings>();
  const std::atomic<std::uint32_t> session{1};
  std::thread([&] {
    const auto bytes = static_cast<std::size_t>(state.range(0)) * 1024;
    auto* room = static_cast<volatile char*>(__builtin_alloca(bytes));
    for (std::size_t i = 0; i < bytes; i += 64) room[i] = static_cast<char>(i);
    ThreadState thread{};
    thread.tid = this_tid();
    std::uint64_t full = 0;
    for (auto _ : state) {
      const SnapshotResult result = take_snapshot(*g_rings->stack_set, thread,
                                                  {1, 2, 3, 1, static_cast<std::uint32_t>(bytes), &session});
      if (result.push != PushResult::ok) {
        ++full;
        state.PauseTiming();
        sleep_ns(300'000);
        state.ResumeTiming();
      }
    }
    state.counters["full"] = static_cast<double>(full);
  }).join();
  g_rings.reset();
}
BENCHMARK(snapshot)->Arg(16)->Arg(80)->Arg(128);

}  // namespace

BENCHMARK_MAIN();
