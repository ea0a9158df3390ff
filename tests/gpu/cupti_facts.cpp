// SPDX-License-Identifier: Apache-2.0
//
// What CUPTI does in corners that the shim's lifecycle depends on, one experiment per process:
// `cupti_facts NAME` prints lines "fact NAME ..." and ends with status 0, or dies as the GPU's driver makes
// it. Needs no toolkit to build: the driver API by tests/simgpu/cuda_driver.h, CUPTI by shim/cupti_types.h.
// Runs on the double, too: where the two differ, the double is wrong.
#include <sched.h>
#include <sys/mman.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <thread>
#include <vector>

#include "cupti_client.h"
#include "workload.h"

namespace {

namespace api = pillion::cupti;
using namespace api;
using cupti_client::g_finalize, cupti_client::g_finalized, cupti_client::g_subscriber,
    cupti_client::t_may_finalize;
using cupti_client::make_graph, cupti_client::make_stream;

struct Seen {
  std::atomic<int> requested{0}, completed{0};
  std::atomic<std::size_t> bytes{0};
};
Seen g_ours, g_theirs;

// Buffers that CUPTI has, and how to make every touch of one a crash.
constexpr std::size_t kBufferBytes = 256 << 10;
std::mutex g_out_mutex;
std::set<std::uint8_t*> g_out;

int take_buffers_away() {
  const std::lock_guard lock(g_out_mutex);
  const int count = static_cast<int>(g_out.size());
  for (std::uint8_t* buffer : g_out) mprotect(buffer, kBufferBytes, PROT_NONE);
  g_out.clear();
  return count;
}

template <Seen* seen>
void requested(std::uint8_t** buffer, std::size_t* size, std::size_t* most) {
  *size = kBufferBytes;
  *most = 0;
  *buffer = static_cast<std::uint8_t*>(
      mmap(nullptr, kBufferBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  const std::lock_guard lock(g_out_mutex);
  g_out.insert(*buffer);
  ++seen->requested;
}
template <Seen* seen>
void completed(void*, std::uint32_t, std::uint8_t* buffer, std::size_t, std::size_t valid) {
  const std::lock_guard lock(g_out_mutex);
  if (g_out.erase(buffer) != 0) munmap(buffer, kBufferBytes);
  ++seen->completed;
  seen->bytes += valid;
}

std::atomic<int> g_trace{0}, g_calls{0};  // callbacks left to print; seen
bool g_profile_in_enter = false;

void callback(void*, CallbackDomain domain, std::uint32_t cbid, const void* data) {
  const bool driver = domain == kDomainDriverApi;
  const auto* call = static_cast<const CallbackData*>(data);
  ++g_calls;
  if (g_trace > 0) {
    --g_trace;
    std::printf("fact   callback %u/%u %s correlation %u\n", domain, cbid,
                driver ? (call->callback_site == kApiEnter ? "enter" : "exit") : "",
                driver ? call->correlation_id : 0);
  }
  if (driver && call->callback_site == kApiEnter && g_profile_in_enter) {
    g_profile_in_enter = false;
    CUPTI(EnableCallback);
    std::printf("fact   enabled MODULE_PROFILED in enter: %u\n",
                EnableCallback(1, g_subscriber, kDomainResource, kResourceModuleProfiled));
  }
  if (driver && call->callback_site == kApiExit && t_may_finalize && g_finalize.exchange(false)) {
    CUPTI(Unsubscribe);
    CUPTI(Finalize);
    const Result left = Unsubscribe(g_subscriber);
    std::printf("fact   unsubscribe %u finalize %u\n", left, Finalize());
    g_finalized = true;
  }
}

Result subscribe(std::initializer_list<std::uint32_t> driver,
                 std::initializer_list<std::uint32_t> resource = {}) {
  CUPTI(Subscribe);
  CUPTI(EnableCallback);
  CUPTI(ActivityRegisterCallbacks);
  const Result result = Subscribe(&g_subscriber, callback, nullptr);
  (void)ActivityRegisterCallbacks(requested<&g_ours>, completed<&g_ours>);
  for (const auto cbid : driver) (void)EnableCallback(1, g_subscriber, kDomainDriverApi, cbid);
  for (const auto cbid : resource) {
    const Result one = EnableCallback(1, g_subscriber, kDomainResource, cbid);
    if (one != kSuccess) std::printf("fact   enable resource %u: %u\n", cbid, one);
  }
  return result;
}

void for_ms(int ms, const std::function<void()>& step) {
  const std::uint64_t end = workload::now_ns() + static_cast<std::uint64_t>(ms) * 1'000'000;
  while (workload::now_ns() < end) step();
}

// Session 1 records replays; then, perhaps, kinds are disabled and the subscriber given up, and on again; at
// last CUPTI is finalized at a launch's exit, and the graph is replayed once more. Which of these orders does
// a program survive?
struct Order {
  enum Work { nothing, kernels, replays };
  Work first;       // recorded in session 1
  Work off;         // while disabled; nothing: never disabled
  Work second;      // recorded between that and the finalize
  bool fresh;       // session 1 is finalized under replays, as is known to be safe, before session 2
  bool two_graphs;  // the second one runs in session 1, while disabled and at the end, not in session 2
};

void finalize_in_order(const Order& order) {
  workload::Device device;
  CUPTI(ActivityEnable);
  CUPTI(ActivityDisable);
  CUPTI(ActivityFlushAll);
  CUPTI(Unsubscribe);
  CUstream on = make_stream();
  CUgraphExec exec = make_graph(device, on);
  CUgraphExec other = order.two_graphs ? make_graph(device, on) : exec;
  const auto run = [&](Order::Work work, bool both) {
    for_ms(200, [&] {
      if (work == Order::kernels) CHECK(device.launch(0, on));
      if (work == Order::replays) CHECK(cuGraphLaunch(exec, on));
      if (work == Order::replays && both) CHECK(cuGraphLaunch(other, on));
    });
  };
  const auto session = [&] {
    std::printf("fact   subscribe %u", subscribe({307, 514, 515}));
    std::printf(" enable %u\n", ActivityEnable(kActivityConcurrentKernel));
  };
  const auto finalize = [&](Order::Work work) {
    t_may_finalize = true;
    g_finalize = true;
    run(work, false);
    CHECK(cuCtxSynchronize());
  };
  run(Order::replays, true);
  for (int cycle = 0; cycle < 3; ++cycle) {
    session();
    run(order.first, true);
    if (order.fresh) finalize(Order::replays);
    if (order.off != Order::nothing) {
      std::printf("fact   disable %u", ActivityDisable(kActivityConcurrentKernel));
      std::printf(" flush %u unsubscribe %u\n", ActivityFlushAll(1), Unsubscribe(g_subscriber));
      run(order.off, true);
    }
    if (order.fresh || order.off != Order::nothing) session();
    run(order.second, false);
    finalize(order.second);
    std::printf("fact   finalized %d; replays\n", g_finalized.exchange(false) ? 1 : 0);
    run(Order::replays, true);
    CHECK(cuCtxSynchronize());
    std::printf("fact   cycle %d alive\n", cycle);
  }
}

// Whether a DEVICE record can be had at any time as a sign of life of our registration, also behind a long
// kernel.
void probe(bool stolen) {
  workload::Device device;
  CUPTI(ActivityEnable);
  CUPTI(ActivityEnableAndDump);
  CUPTI(ActivityFlushAll);
  CUPTI(ActivityRegisterCallbacks);
  CUstream on = make_stream();
  (void)subscribe({307});
  (void)ActivityEnable(kActivityConcurrentKernel);
  CHECK(device.launch(0, on));
  CHECK(cuCtxSynchronize());
  (void)ActivityFlushAll(0);
  if (stolen) (void)ActivityRegisterCallbacks(requested<&g_theirs>, completed<&g_theirs>);
  for (int i = 0; i < 3; ++i) CHECK(device.launch(0, on, 1'500'000'000));
  for (int i = 0; i < 200; ++i) CHECK(device.launch(0, on));
  std::thread prober([&] {
    for (int i = 0; i < 5; ++i) {
      const std::uint64_t begin = workload::now_ns();
      const Result dumped = ActivityEnableAndDump(kActivityDevice);
      const Result flushed = ActivityFlushAll(0);
      std::printf("fact   dump %u flush %u took %.1f ms; ours %d/%d %zu bytes theirs %d/%d %zu bytes\n",
                  dumped, flushed, workload::seconds_since(begin) * 1e3, g_ours.requested.load(),
                  g_ours.completed.load(), g_ours.bytes.load(), g_theirs.requested.load(),
                  g_theirs.completed.load(), g_theirs.bytes.load());
      workload::sleep_seconds(0.1);
    }
  });
  prober.join();
  CHECK(cuCtxSynchronize());
}

// Another client finalizes CUPTI under us: what the calls say that we make every tick.
void stale(bool somebody_new) {
  workload::Device device;
  CUPTI(ActivityEnable);
  CUPTI(ActivityFlushAll);
  CUPTI(GetTimestamp);
  CUPTI(GetCallbackState);
  CUPTI(Unsubscribe);
  CUPTI(Subscribe);
  CUPTI(Finalize);
  CUstream on = make_stream();
  (void)subscribe({307});
  (void)ActivityEnable(kActivityConcurrentKernel);
  for (int i = 0; i < 100; ++i) CHECK(device.launch(0, on));
  CHECK(cuCtxSynchronize());
  std::uint32_t enabled = 9;
  std::printf("fact   before: state %u", GetCallbackState(&enabled, g_subscriber, kDomainDriverApi, 307));
  std::printf(" enabled %u flush %u\n", enabled, ActivityFlushAll(0));
  std::printf("fact   finalize by another %u, buffers %d/%d\n", Finalize(), g_ours.requested.load(),
              g_ours.completed.load());
  const int before = g_calls;
  for (int i = 0; i < 100; ++i) CHECK(device.launch(0, on));
  std::printf("fact   callbacks of 100 launches after it: %d\n", g_calls - before);
  const Subscriber ours = g_subscriber;
  if (somebody_new)
    std::printf("fact   somebody subscribes: %u\n", Subscribe(&g_subscriber, callback, nullptr));
  std::fflush(stdout);
  enabled = 9;
  std::uint64_t stamp = 0;
  std::printf("fact   flush %u\n", ActivityFlushAll(0));
  std::fflush(stdout);
  const Result state = GetCallbackState(&enabled, ours, kDomainDriverApi, 307);
  std::printf("fact   state %u enabled %u, timestamp %u\n", state, enabled, GetTimestamp(&stamp));
  std::fflush(stdout);
  std::printf("fact   unsubscribe with the old handle %u\n", Unsubscribe(ours));
  for (int i = 0; i < 100; ++i) CHECK(device.launch(0, on));
  CHECK(cuCtxSynchronize());
}

void capture() {
  workload::Device device;
  CUstream on = make_stream();
  CHECK(device.launch(0, on));
  (void)subscribe({307, 514, 527}, {13});
  g_trace = 12;
  std::printf("fact   three captured launches\n");
  CUgraph graph = nullptr;
  CHECK(cuStreamBeginCapture_v2(on, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
  for (unsigned node = 0; node < 3; ++node) CHECK(device.launch(node, on));
  CHECK(cuStreamEndCapture(on, &graph));
  CUgraphExec exec = nullptr;
  CHECK(cuGraphInstantiateWithFlags(&exec, graph, 0));
  std::printf("fact   a replay, then an ordinary launch\n");
  g_trace = 12;
  CHECK(cuGraphLaunch(exec, on));
  CHECK(device.launch(0, on));
  CHECK(cuCtxSynchronize());
}

void profiled() {
  workload::Device device;
  CUstream on = make_stream();
  CHECK(device.launch(0, on));
  (void)subscribe({307});
  g_profile_in_enter = true;
  g_trace = 8;
  CHECK(device.launch(0, on));
  CHECK(device.launch(0, on));
  CHECK(cuCtxSynchronize());
}

// Whether finalize gives back every buffer, nothing asks for one afterwards, and the memory of those that
// stay out may go `wait_ms` after it.
void buffers(double wait_ms) {
  workload::Device device;
  CUPTI(ActivityEnable);
  std::atomic<bool> stop{false};
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&] {
      device.make_current();
      t_may_finalize = true;
      CUstream on = make_stream();
      while (!stop) {  // at full speed subscribing would never return
        for (int burst = 0; burst < 4; ++burst) CHECK(device.launch(0, on));
        workload::sleep_seconds(40e-6);
      }
      CHECK(cuStreamSynchronize(on));
    });
  }
  for (int cycle = 0; cycle < 30; ++cycle) {
    (void)subscribe({307});
    (void)ActivityEnable(kActivityConcurrentKernel);
    workload::sleep_seconds(0.1);
    g_finalize = true;
    while (!g_finalized) sched_yield();
    g_finalized = false;
    const int asked = g_ours.requested, back = g_ours.completed;
    if (wait_ms > 0) workload::sleep_seconds(wait_ms * 1e-3);
    const int taken_away = take_buffers_away();
    workload::sleep_seconds(0.1);
    if (cycle % 10 != 0) continue;
    std::printf("fact   cycle %d: %d/%d when finalize returned, %d/%d 100 ms later; %d taken away\n", cycle,
                asked, back, g_ours.requested.load(), g_ours.completed.load(), taken_away);
  }
  stop = true;
  for (std::thread& thread : threads) thread.join();
}

}  // namespace

int main(int argc, char** argv) {
  const std::map<std::string, std::function<void()>> experiments = {
      {"on_kernels",
       [] {
         finalize_in_order({Order::replays, Order::nothing, Order::kernels, false, false});
       }},
      {"fresh_kernels",
       [] {
         finalize_in_order({Order::replays, Order::nothing, Order::kernels, true, false});
       }},
      {"off_replays_on_replays",
       [] {
         finalize_in_order({Order::replays, Order::replays, Order::replays, false, false});
       }},
      {"off_replays_on_kernels",
       [] {
         finalize_in_order({Order::replays, Order::replays, Order::kernels, false, false});
       }},
      {"off_kernels_on_kernels",
       [] {
         finalize_in_order({Order::replays, Order::kernels, Order::kernels, false, false});
       }},
      {"off_kernels_on_replays",
       [] {
         finalize_in_order({Order::replays, Order::kernels, Order::replays, false, false});
       }},
      {"off_two_graphs_on_one",
       [] {
         finalize_in_order({Order::replays, Order::replays, Order::replays, false, true});
       }},
      {"kernels_off_replays_on_kernels",
       [] {
         finalize_in_order({Order::kernels, Order::replays, Order::kernels, false, false});
       }},
      {"on_one_of_two_graphs",
       [] {
         finalize_in_order({Order::replays, Order::nothing, Order::replays, false, true});
       }},
      {"probe", [] { probe(false); }},
      {"probe_stolen", [] { probe(true); }},
      {"stale", [] { stale(false); }},
      {"stale_replaced", [] { stale(true); }},
      {"capture", capture},
      {"profiled", profiled},
      {"buffers_at_once", [] { buffers(0); }},
      {"buffers_later", [] { buffers(50); }},
  };
  const auto found = experiments.find(argc > 1 ? argv[1] : "");
  if (found == experiments.end()) {
    for (const auto& [name, run] : experiments) std::puts(name.c_str());
    return argc > 1 ? 2 : 0;
  }
  cupti_client::load();
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  std::printf("fact %s\n", found->first.c_str());
  found->second();
}
