// SPDX-License-Identifier: Apache-2.0
//
// How long each call of an arming takes while other threads are busy, and what a process has grown by after
// many cycles of subscribe and finalize: `arming_facts NAME`, one process each, lines "fact ...". Runs on the
// double, too.
#include <dlfcn.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstring>
#include <functional>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "cupti_types.h"
#include "workload.h"

namespace {

namespace api = pillion::cupti;
using namespace api;

void* g_library = nullptr;
template <class Function>
Function function(const char* name) {
  return reinterpret_cast<Function>(dlsym(g_library, name));
}
#define CUPTI(name) const api::name name = function<api::name>("cupti" #name)

constexpr std::size_t kBufferBytes = 256 << 10;
constexpr std::uint32_t kLaunchCbids[] = {115, 116, 117, 307, 442, 477, 478, 480, 514, 515, 652, 653};
constexpr ActivityKind kKinds[] = {kActivityConcurrentKernel, kActivityMemcpy, kActivityMemset,
                                   kActivityMemcpy2, kActivityOverhead};

void requested(std::uint8_t** buffer, std::size_t* size, std::size_t* most) {
  *size = kBufferBytes;
  *most = 0;
  *buffer = static_cast<std::uint8_t*>(
      mmap(nullptr, kBufferBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
}
void completed(void*, std::uint32_t, std::uint8_t* buffer, std::size_t, std::size_t) {
  munmap(buffer, kBufferBytes);
}

Subscriber g_subscriber = nullptr;
std::atomic<bool> g_finalize{false}, g_finalized{false};
thread_local bool t_may_finalize = false;

void callback(void*, CallbackDomain domain, std::uint32_t, const void* data) {
  const auto* call = static_cast<const CallbackData*>(data);
  if (domain != kDomainDriverApi || call->callback_site != kApiExit || !t_may_finalize) return;
  if (!g_finalize.exchange(false)) return;
  CUPTI(Unsubscribe);
  CUPTI(Finalize);
  (void)Unsubscribe(g_subscriber);
  (void)Finalize();
  g_finalized = true;
}

CUstream stream() {
  CUstream made = nullptr;
  CHECK(cuStreamCreate(&made, CU_STREAM_NON_BLOCKING));
  return made;
}

CUgraphExec make_graph(workload::Device& device, CUstream on) {
  CUgraph graph = nullptr;
  CUgraphExec exec = nullptr;
  CHECK(cuStreamBeginCapture_v2(on, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
  for (unsigned node = 0; node < 20; ++node) CHECK(device.launch(node, on));
  CHECK(cuStreamEndCapture(on, &graph));
  CHECK(cuGraphInstantiateWithFlags(&exec, graph, 0));
  return exec;
}

// The call that is under way, for the one who waits for it.
std::atomic<const char*> g_step{"nothing"};
std::atomic<bool> g_armed{false};

void timed(const char* name, const std::function<void()>& call) {
  g_step = name;
  const std::uint64_t begin = workload::now_ns();
  call();
  const double ms = static_cast<double>(workload::now_ns() - begin) * 1e-6;
  if (ms > 20) std::printf("fact   %s took %.1f ms\n", name, ms);
}

void arm() {
  CUPTI(Subscribe);
  CUPTI(EnableCallback);
  CUPTI(ActivityRegisterCallbacks);
  CUPTI(ActivityEnable);
  timed("subscribe", [&] { (void)Subscribe(&g_subscriber, callback, nullptr); });
  timed("register", [&] { (void)ActivityRegisterCallbacks(requested, completed); });
  for (const ActivityKind kind : kKinds) timed("activity enable", [&] { (void)ActivityEnable(kind); });
  for (const std::uint32_t cbid : kLaunchCbids)
    timed("enable callback", [&] { (void)EnableCallback(1, g_subscriber, kDomainDriverApi, cbid); });
  g_armed = true;
}

long rss_kib() {
  long pages = 0;
  if (std::FILE* file = std::fopen("/proc/self/statm", "r")) {
    (void)!std::fscanf(file, "%*d %ld", &pages);
    std::fclose(file);
  }
  return pages * 4;
}

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
      CUstream on = stream();
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
    std::printf("fact   left %d after %.2f s, in: %s; RSS %ld KiB\n", left ? 1 : 0,
                workload::seconds_since(leaving), g_step.load(), rss_kib());
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
  using MemGetInfo = CUresult (*)(std::size_t*, std::size_t*);  // the double has no device memory to tell of
  const auto memory = reinterpret_cast<MemGetInfo>(dlsym(RTLD_DEFAULT, "cuMemGetInfo_v2"));
  CUPTI(ActivityDisable);
  CUPTI(ActivityFlushAll);
  CUPTI(Unsubscribe);
  CUstream on = stream();
  t_may_finalize = true;
  for (int cycle = 0; cycle <= 60; ++cycle) {
    if (cycle % 10 == 0) {
      std::size_t free_bytes = 0, total = 0;
      if (memory != nullptr) CHECK(memory(&free_bytes, &total));
      std::printf("fact   after %d cycles: RSS %ld KiB, device free %zu KiB\n", cycle, rss_kib(),
                  free_bytes >> 10);
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
  g_library = dlopen("libcupti.so.13", RTLD_NOW);
  if (g_library == nullptr) {
    std::printf("%s\n", dlerror());
    return 1;
  }
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  std::printf("fact %s\n", found->first.c_str());
  found->second();
}
