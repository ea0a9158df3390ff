// SPDX-License-Identifier: Apache-2.0
//
// How long each call of an arming takes while other threads are busy, and what a process has grown by after
// many cycles of subscribe and finalize: `arming_facts NAME`, one process each, lines "fact ...". Runs on the
// double, too.
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstring>
#include <functional>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "cupti_client.h"

namespace {

using namespace cupti_client;

enum class Leave { not_at_all, disabled, disabled_unflushed, unsubscribed_first, finalized };

struct Load {
  int graph_threads;
  int kernel_threads;
  int sync_every;  // launches between two synchronisations of a thread's stream; 0: never
  Leave leave = Leave::not_at_all;
};

// What a detach that may not finalize calls, in one order or another.
void leave_under_load(Leave leave) {
  CUPTI(ActivityDisable);
  CUPTI(ActivityFlushAll);
  CUPTI(Unsubscribe);
  const auto unsubscribe = [&] { timed("unsubscribe", [&] { (void)Unsubscribe(g_subscriber); }); };
  if (leave == Leave::unsubscribed_first) unsubscribe();
  for (const ActivityKind kind : kKinds) timed("activity disable", [&] { (void)ActivityDisable(kind); });
  if (leave != Leave::disabled_unflushed) timed("flush", [&] { (void)ActivityFlushAll(1); });
  if (leave != Leave::unsubscribed_first) unsubscribe();
}

// Prints how long arming takes under the load, or the call in which it still is after 12 s.
void under(const Load& load) {
  workload::Device device;
  std::atomic<bool> stop{false};
  std::atomic<std::uint64_t> operations{0};
  std::vector<std::atomic<std::uint64_t>> each(
      static_cast<std::size_t>(load.graph_threads + load.kernel_threads));
  std::vector<std::thread> threads;
  for (int i = 0; i < load.graph_threads + load.kernel_threads; ++i) {
    threads.emplace_back([&, i] {
      device.make_current();
      CUstream on = make_stream();
      CUgraphExec exec = i < load.graph_threads ? make_graph(device, on) : nullptr;
      for (int n = 1; !stop; ++n) {
        if (exec != nullptr)
          CHECK(cuGraphLaunch(exec, on));
        else
          CHECK(device.launch(0, on));
        if (load.sync_every != 0 && n % load.sync_every == 0) CHECK(cuStreamSynchronize(on));
        each[static_cast<std::size_t>(i)].fetch_add(1, std::memory_order_relaxed);
        operations.fetch_add(1, std::memory_order_relaxed);
      }
      CHECK(cuStreamSynchronize(on));
    });
  }
  workload::sleep_seconds(1);
  std::uint64_t before = operations;
  workload::sleep_seconds(1);
  std::printf("fact   %d graph + %d kernel threads: %llu operations/s\n", load.graph_threads,
              load.kernel_threads, static_cast<unsigned long long>(operations - before));
  const std::uint64_t begin = workload::now_ns();
  std::thread armer(arm);
  armer.detach();
  while (!g_armed && workload::seconds_since(begin) < 12) workload::sleep_seconds(0.01);
  std::printf("fact   armed %d after %.2f s, in: %s\n", g_armed ? 1 : 0, workload::seconds_since(begin),
              g_step.load());
  before = operations;
  workload::sleep_seconds(1);
  std::printf("fact   armed: %llu operations/s\n", static_cast<unsigned long long>(operations - before));
  if (g_armed && load.leave != Leave::not_at_all) {
    std::atomic<bool> left{false};
    const std::uint64_t leaving = workload::now_ns();
    std::thread leaver([&] {
      leave_under_load(load.leave);
      left = true;
    });
    leaver.detach();
    while (!left && workload::seconds_since(leaving) < 12) workload::sleep_seconds(0.01);
    std::printf("fact   left %d after %.2f s, in: %s\n", left ? 1 : 0, workload::seconds_since(leaving),
                g_step.load());
    print_held("left");
  }
  before = operations;
  workload::sleep_seconds(1);
  std::printf("fact   then %llu operations/s; by thread:",
              static_cast<unsigned long long>(operations - before));
  for (const auto& one : each) std::printf(" %llu", static_cast<unsigned long long>(one.load()));
  std::printf("\n");
  std::fflush(stdout);
  _exit(0);
}

// What the process and the device hold after each tenth cycle of arming and leaving.
void growth(Leave leave) {
  workload::Device device;
  CUPTI(ActivityDisable);
  CUPTI(ActivityFlushAll);
  CUPTI(Unsubscribe);
  CUstream on = make_stream();
  t_may_finalize = true;
  for (int cycle = 0; cycle <= 60; ++cycle) {
    if (cycle % 10 == 0) {
      std::printf("fact   after %d cycles\n", cycle);
      print_held("held");
    }
    arm();
    const std::uint64_t end = workload::now_ns() + 50'000'000;
    while (workload::now_ns() < end) CHECK(device.launch(0, on));
    CHECK(cuStreamSynchronize(on));
    if (leave == Leave::disabled) {
      for (const ActivityKind kind : kKinds) (void)ActivityDisable(kind);
      (void)ActivityFlushAll(1);
      (void)Unsubscribe(g_subscriber);
      continue;
    }
    (void)ActivityFlushAll(1);
    g_finalize = true;
    CHECK(device.launch(0, on));
    if (!g_finalized.exchange(false)) std::printf("fact   not finalized\n");
  }
}

}  // namespace

int main(int argc, char** argv) {
  const std::map<std::string, std::function<void()>> experiments = {
      {"arm_4_graph_threads",
       [] {
         under({4, 0, 0});
       }},
      {"arm_4_graph_threads_synchronising",
       [] {
         under({4, 0, 16});
       }},
      {"leave_4_graph_threads",
       [] {
         under({4, 0, 0, Leave::disabled});
       }},
      {"leave_4_graph_threads_unflushed",
       [] {
         under({4, 0, 0, Leave::disabled_unflushed});
       }},
      {"leave_4_graph_threads_unsubscribed_first",
       [] {
         under({4, 0, 0, Leave::unsubscribed_first});
       }},
      {"arm_2_graph_threads",
       [] {
         under({2, 0, 0});
       }},
      {"arm_8_kernel_threads",
       [] {
         under({0, 8, 0});
       }},
      {"arm_8_kernel_threads_synchronising",
       [] {
         under({0, 8, 64});
       }},
      {"growth_finalized", [] { growth(Leave::finalized); }},
      {"growth_disabled", [] { growth(Leave::disabled); }},
  };
  const auto found = experiments.find(argc > 1 ? argv[1] : "");
  if (found == experiments.end()) {
    for (const auto& [name, run] : experiments) std::printf("%s\n", name.c_str());
    return argc > 1 ? 2 : 0;
  }
  load();
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  std::printf("fact %s\n", found->first.c_str());
  found->second();
}
