// SPDX-License-Identifier: Apache-2.0
//
// What cuptiActivityFlushAll does while records flood, and what becomes of CUPTI's memory then: `flush_facts
// NAME`, one process each, lines "fact ...". Runs on the double, too.
#include <unistd.h>

#include <cstring>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "cupti_client.h"

namespace {

using namespace cupti_client;

void limit_pool(std::size_t limit) {
  CUPTI(ActivitySetAttribute);
  std::size_t size = sizeof(limit);
  std::printf("fact   pool limit %zu: result %u\n", limit,
              ActivitySetAttribute(kAttributeDeviceBufferPoolLimit, &size, &limit));
}

void one_buffer_for_all() {
  CUPTI(ActivitySetAttribute);
  std::uint8_t off = 0;
  std::size_t size = sizeof(off);
  std::printf("fact   one buffer: result %u\n",
              ActivitySetAttribute(kAttributePerThreadActivityBuffer, &size, &off));
}

// How a client that records threads which replay graphs, and look at each 500th replay's result, may flush.
struct Flushing {
  int graph_threads = 4;
  bool at_ticks = true;        // FlushAll(0) each 100 ms
  bool at_end = true;          // FlushAll(1) after a second
  bool disable_first = false;  // then only after the kinds are disabled
  std::size_t pool_limit = 0;  // 0: CUPTI's own
  bool one_buffer = false;     // not one per thread
  bool brake = false;          // another thread disables the kinds once a flush has taken a second
  int launches_a_round = 500;
  bool kernels = false;          // launched one by one instead of graphs of 20
  double launches_a_second = 0;  // of each thread; 0: as fast as it goes
  int cycles = 6;
};

std::atomic<std::uint64_t> g_flush_begun{0};

void flush_timed(std::uint32_t flag) {
  CUPTI(ActivityFlushAll);
  g_flush_begun = workload::now_ns();
  timed(flag == 0 ? "FlushAll(0)" : "FlushAll(1)", [&] { (void)ActivityFlushAll(flag); });
  g_flush_begun = 0;
}

void record_cycles(const Flushing& how, std::atomic<int>& cycle) {
  CUPTI(ActivityDisable);
  CUPTI(Unsubscribe);
  const auto disable = [&] {
    for (const ActivityKind kind : kKinds) timed("disable", [&] { (void)ActivityDisable(kind); });
  };
  workload::sleep_seconds(0.5);
  for (cycle = 0; cycle < how.cycles; ++cycle) {
    arm();
    for (int tick = 0; tick < 10; ++tick) {
      workload::sleep_seconds(0.1);
      if (how.at_ticks) flush_timed(0);
    }
    if (how.disable_first) disable();
    if (how.at_end) flush_timed(1);
    if (!how.disable_first) disable();
    timed("unsubscribe", [&] { (void)Unsubscribe(g_subscriber); });
  }
}

void brake_when_slow() {
  CUPTI(ActivityDisable);
  for (;;) {
    const std::uint64_t begun = g_flush_begun;
    if (begun != 0 && workload::now_ns() - begun > 1'000'000'000u) {
      std::printf("fact   braking\n");
      const std::uint64_t begin = workload::now_ns();
      for (const ActivityKind kind : kKinds) (void)ActivityDisable(kind);
      std::printf("fact   braked in %.3f s\n", workload::seconds_since(begin));
      return;
    }
    workload::sleep_seconds(0.01);
  }
}

void launch_rounds(workload::Device& device, const Flushing& how, std::atomic<std::uint64_t>& operations) {
  device.make_current();
  CUstream on = make_stream();
  CUgraphExec exec = how.kernels ? nullptr : make_graph(device, on);
  std::vector<std::uint64_t> out(512);
  const double gap_ns = how.launches_a_second > 0 ? 1e9 / how.launches_a_second : 0;
  const std::uint64_t begin = workload::now_ns();
  double due_ns = 0;
  for (;;) {
    for (int n = 0; n < how.launches_a_round; ++n) {
      if (exec != nullptr)
        CHECK(cuGraphLaunch(exec, on));
      else
        CHECK(device.launch(0, on));
      operations.fetch_add(1, std::memory_order_relaxed);
      due_ns += gap_ns;
      while (gap_ns > 0 && static_cast<double>(workload::now_ns() - begin) < due_ns) {
      }
    }
    CHECK(cuMemcpyDtoHAsync_v2(out.data(), device.y(), 4096, on));
    CHECK(cuStreamSynchronize(on));
  }
}

void cycles_under_graphs(const Flushing& how) {
  workload::Device device;
  std::atomic<std::uint64_t> operations{0};
  for (int i = 0; i < how.graph_threads; ++i)
    std::thread([&] { launch_rounds(device, how, operations); }).detach();
  if (how.pool_limit != 0) limit_pool(how.pool_limit);
  if (how.one_buffer) one_buffer_for_all();
  std::atomic<int> cycle{-1};
  std::thread([&] { record_cycles(how, cycle); }).detach();
  if (how.brake) std::thread(brake_when_slow).detach();
  std::uint64_t before = operations;
  const std::uint64_t begin = workload::now_ns();
  while (cycle < how.cycles && workload::seconds_since(begin) < 12) {
    workload::sleep_seconds(2);
    const std::uint64_t now = operations;
    std::printf("fact   cycle %d, in %s: %llu replays in 2 s\n", cycle.load(), g_step.load(),
                static_cast<unsigned long long>(now - before));
    before = now;
    print_held("held");
  }
  std::fflush(stdout);
  _exit(0);
}

const std::map<std::string, Flushing> kExperiments = {
    {"ticks", {}},
    {"ticks_no_sync", {.launches_a_round = 1 << 30}},
    {"ticks_pool_8", {.pool_limit = 8}},
    {"ticks_one_buffer", {.one_buffer = true}},
    {"ticks_brake", {.brake = true}},
    {"ticks_one_thread", {.graph_threads = 1, .cycles = 3}},
    {"ticks_kernels", {.kernels = true, .cycles = 3}},
    {"ticks_100k_records", {.launches_a_second = 1250, .cycles = 2}},
    {"ticks_200k_records", {.launches_a_second = 2500, .cycles = 2}},
    {"ticks_400k_records", {.launches_a_second = 5000, .cycles = 2}},
    {"ticks_700k_records", {.launches_a_second = 8750, .cycles = 2}},
    {"at_end", {.at_ticks = false}},
    {"at_end_disabled", {.at_ticks = false, .disable_first = true}},
    {"never", {.at_ticks = false, .at_end = false}},
    {"never_one_buffer", {.at_ticks = false, .at_end = false, .one_buffer = true}},
    {"never_kernels", {.at_ticks = false, .at_end = false, .kernels = true, .cycles = 3}},
    {"never_kernels_one_buffer",
     {.at_ticks = false, .at_end = false, .one_buffer = true, .kernels = true, .cycles = 3}},
};

}  // namespace

int main(int argc, char** argv) {
  const auto found = kExperiments.find(argc > 1 ? argv[1] : "");
  if (found == kExperiments.end()) {
    for (const auto& [name, how] : kExperiments) std::printf("%s\n", name.c_str());
    return argc > 1 ? 2 : 0;
  }
  load();
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  std::printf("fact %s\n", found->first.c_str());
  cycles_under_graphs(found->second);
}
