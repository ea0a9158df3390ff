// SPDX-License-Identifier: Apache-2.0
//
// How long each call of an arming takes while other threads are busy, and what a process has grown by after
// many cycles of subscribe and finalize: `arming_facts NAME`, one process each, lines "fact ...". Runs on the
// double, too.
#include <unistd.h>

#include <algorithm>
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

// What MODULE_PROFILED costs: a launch while it is on, and switching it while threads launch.
void module_profiled() {
  workload::Device device;
  CUPTI(EnableCallback);
  CUstream on = make_stream();
  constexpr int kLaunches = 20'000;
  const auto launches = [&](const char* what) {
    const std::uint64_t begin = workload::now_ns();
    for (int i = 0; i < kLaunches; ++i) CHECK(device.launch(static_cast<unsigned>(i % 2), on));
    const std::uint64_t end = workload::now_ns();
    CHECK(cuStreamSynchronize(on));
    std::printf("fact   %s: %llu ns a launch\n", what,
                static_cast<unsigned long long>((end - begin) / kLaunches));
    print_held(what);
  };
  const auto profiled = [&](bool wanted) {
    (void)EnableCallback(wanted ? 1 : 0, g_subscriber, kDomainResource, kResourceModuleProfiled);
  };
  launches("bare");
  arm();
  launches("armed");
  for (int i = 0; i < 3; ++i) {
    profiled(true);
    launches("MODULE_PROFILED on");
    profiled(false);
    launches("MODULE_PROFILED off");
  }
  std::atomic<bool> stop{false};
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      device.make_current();
      CUstream own = make_stream();
      while (!stop) {
        for (int burst = 0; burst < 4; ++burst) CHECK(device.launch(0, own));
        CHECK(cuStreamSynchronize(own));
      }
    });
  }
  workload::sleep_seconds(0.2);
  std::vector<std::uint64_t> took;
  for (int i = 0; i < 2000; ++i) {
    const std::uint64_t begin = workload::now_ns();
    profiled(true);
    profiled(false);
    took.push_back(workload::now_ns() - begin);
    workload::sleep_seconds(20e-6);
  }
  stop = true;
  for (std::thread& thread : threads) thread.join();
  std::sort(took.begin(), took.end());
  std::printf("fact   on and off beside 4 launching threads: median %llu ns, p99 %llu, worst %llu\n",
              static_cast<unsigned long long>(took[1000]), static_cast<unsigned long long>(took[1980]),
              static_cast<unsigned long long>(took[1999]));
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
      {"module_profiled", module_profiled},
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
