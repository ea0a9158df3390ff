// SPDX-License-Identifier: Apache-2.0
// Runs one scenario against the doubles and prints what came of it as "key value" lines. A process of its
// own, because the knobs are read once and some scenarios are meant to kill it.
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstring>
#include <functional>
#include <thread>

#include "client.h"
#include "cupti_functions.h"
#include "simgpu_interface.h"

using namespace pillion::cupti;

namespace {

constexpr char kPtx[] =
    ".version 6.4\n.entry axpy(.param .u32 n) { ret; }\n.entry spin(.param .u64 ns) { ret; }\n";

struct Gpu {
  CUcontext context = nullptr;
  CUmodule module = nullptr;
  CUfunction axpy = nullptr, spin = nullptr;
  CUstream stream = nullptr;
  CUdeviceptr memory = 0;
  char host[8192] = {};

  Gpu() {
    CU(cuInit(0));
    CU(cuDevicePrimaryCtxRetain(&context, 0));
    CU(cuCtxSetCurrent(context));
    CU(cuModuleLoadData(&module, kPtx));
    CU(cuModuleGetFunction(&axpy, module, "axpy"));
    CU(cuModuleGetFunction(&spin, module, "spin"));
    CU(cuStreamCreate(&stream, 0));
    CU(cuMemAlloc_v2(&memory, 8192));
  }

  CUresult launch(CUfunction f, std::uint64_t ns = 0, CUstream on = nullptr) {
    void* parameters[] = {&ns};
    return cuLaunchKernel(f, 1, 1, 1, 32, 1, 1, 0, on != nullptr ? on : stream, parameters, nullptr);
  }

  CUgraphExec graph() {
    CUgraph captured = nullptr;
    CUgraphExec exec = nullptr;
    CU(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
    CU(launch(axpy));
    CU(cuMemcpyDtoDAsync_v2(memory, memory + 4096, 4096, stream));
    CU(cuMemsetD8Async(memory, 1, 4096, stream));
    CU(launch(axpy));
    CU(cuStreamEndCapture(stream, &captured));
    CU(cuGraphInstantiateWithFlags(&exec, captured, 0));
    return exec;
  }
};

void print(const char* key, std::uint64_t value) {
  std::printf("%s %llu\n", key, static_cast<unsigned long long>(value));
}

void print_client() {
  Client& c = client();
  const std::lock_guard lock(c.mutex);
  print("enters", c.enters);
  print("exits", c.exits);
  print("mismatched", c.mismatched);
  print("failed", c.failed);
  print("unmatched", c.unmatched);
  print("zero_stamps", c.zero_stamps);
  print("outside", c.outside);
  print("foreign_buffers", c.foreign_buffers);
  print("disordered", c.disordered);
  print("on_own_thread", c.completions_on_own_thread);
  print("buffers_out", c.buffers_out());
  print("ns", c.ns);
  print("first_correlation", c.launch_correlations.empty() ? 0 : *c.launch_correlations.begin());
  print("last_correlation", c.launch_correlations.empty() ? 0 : *c.launch_correlations.rbegin());
  print("nodes", c.nodes.size());
  for (const auto& [kind, count] : c.records) print(("records_" + std::to_string(kind)).c_str(), count);
  for (const auto& [kind, size] : c.sizes) print(("size_" + std::to_string(kind)).c_str(), size);
  for (const auto& [kind, bytes] : c.bytes) print(("bytes_" + std::to_string(kind)).c_str(), bytes);
  for (const auto& [cbid, count] : c.cbids) print(("cbid_" + std::to_string(cbid)).c_str(), count);
  for (const auto& [cbid, count] : c.resources) print(("resource_" + std::to_string(cbid)).c_str(), count);
  print("truth_ns", simgpu_gpu_ns());
  std::size_t dropped = 0, again = 0;
  cuptiActivityGetNumDroppedRecords(nullptr, 0, &dropped);
  cuptiActivityGetNumDroppedRecords(nullptr, 0, &again);
  print("dropped", dropped);
  print("dropped_again", again);
}

// Of everything something: 300 kernels, copies of each direction, sets, 5 replays of a graph with 4 nodes.
void mixed_work(Gpu& gpu) {
  for (int i = 0; i < 200; ++i) gpu.launch(gpu.axpy);
  for (std::uint64_t i = 0; i < 100; ++i) gpu.launch(gpu.spin, 1000 + i);
  for (int i = 0; i < 3; ++i) {
    CU(cuMemcpyHtoD_v2(gpu.memory, gpu.host, 1000));
    CU(cuMemcpyDtoHAsync_v2(gpu.host, gpu.memory, 2000, gpu.stream));
    CU(cuMemcpyPeerAsync(gpu.memory, gpu.context, gpu.memory + 4096, gpu.context, 500, gpu.stream));
    CU(cuMemsetD32Async(gpu.memory, 7, 100, gpu.stream));
  }
  CUgraphExec exec = gpu.graph();
  for (int i = 0; i < 5; ++i) CU(cuGraphLaunch(exec, gpu.stream));
  CU(cuCtxSynchronize());
}

int mixed() {
  Gpu gpu;
  print("attach", client().attach());
  for (const ActivityKind kind : {kActivityDevice, kActivityContext, kActivityStream})
    cuptiActivityEnableAndDump(kind);
  cuptiActivityEnable(kActivityOverhead);
  cuptiActivityEnable(kActivitySynchronization);
  mixed_work(gpu);
  print("flush", cuptiActivityFlushAll(0));
  print_client();
  simgpu_module_bytes module{};
  simgpu_module_of(gpu.module, &module);
  const std::string truth(static_cast<const char*>(module.bytes), module.size);
  print("module_right", !client().modules.empty() && client().modules.front() == truth);
  return 0;
}

// 8 threads on 8 streams, some of which have ended before the flush.
int threads() {
  Gpu gpu;
  print("attach", client().attach());
  std::vector<std::thread> all;
  for (int t = 0; t < 8; ++t) {
    all.emplace_back([&gpu] {
      CUstream stream = nullptr;
      CU(cuCtxSetCurrent(gpu.context));
      CU(cuStreamCreate(&stream, 0));
      for (int i = 0; i < 5000; ++i) CU(gpu.launch(gpu.axpy, 0, stream));
    });
  }
  for (std::thread& thread : all) thread.join();
  CU(cuCtxSynchronize());
  print("flush", cuptiActivityFlushAll(0));
  print_client();
  return 0;
}

// A flush while a long kernel runs: 0 keeps its buffer, 1 gives it back without stamps.
int incomplete() {
  Gpu gpu;
  print("attach", client().attach());
  gpu.launch(gpu.axpy);
  gpu.launch(gpu.spin, 60'000'000'000);
  cuptiActivityFlushAll(0);
  print("after_0", client().records[kActivityConcurrentKernel]);
  cuptiActivityFlushAll(1);
  print("after_1", client().records[kActivityConcurrentKernel]);
  print("zero_stamps", client().zero_stamps);
  std::fflush(stdout);
  _exit(0);  // the kernel would be waited for
}

// Attach, detach with finalize, attach again.
int reattach() {
  Gpu gpu;
  print("attach", client().attach());
  gpu.launch(gpu.axpy);
  gpu.launch(gpu.axpy);
  CU(cuCtxSynchronize());
  cuptiActivityFlushAll(1);
  cuptiUnsubscribe(client().subscriber);
  print("finalize", cuptiFinalize());
  gpu.launch(gpu.axpy);
  print("enters_detached", client().enters);
  client().launch_correlations.clear();
  print("attach_again", client().attach());
  gpu.launch(gpu.axpy);
  CU(cuCtxSynchronize());
  cuptiActivityFlushAll(0);
  print_client();
  return 0;
}

int errors() {
  Gpu gpu;
  std::uint32_t version = 0;
  cuptiGetVersion(&version);
  print("version", version);
  print("subscribe", client().subscribe());
  Subscriber second = nullptr;
  char holder[64] = {};
  SubscriberParams params{sizeof params, "second", holder, sizeof holder};
  print("second", cuptiSubscribe_v2(
                      &second, [](void*, CallbackDomain, std::uint32_t, const void*) {}, nullptr, &params));
  std::printf("holder '%s'\n", holder);
  print("flush_unregistered", cuptiActivityFlushAll(0));
  print("register_null", cuptiActivityRegisterCallbacks(nullptr, nullptr));
  print("timestamp_null", cuptiActivityRegisterTimestampCallback(nullptr));
  print("unknown_kind", cuptiActivityEnable(static_cast<ActivityKind>(99)));
  print("jit_kind", cuptiActivityEnable(static_cast<ActivityKind>(52)));
  print("concurrent", cuptiActivityEnable(kActivityConcurrentKernel));
  print("kernel_too", cuptiActivityEnable(kActivityKernel));
  print("pc_sampling", cuptiPCSamplingEnable(nullptr));
  print("unsubscribe_wrong", cuptiUnsubscribe(&params));
  std::uint8_t garbage[64] = {77};
  std::uint8_t* record = nullptr;
  print("bad_kind", cuptiActivityGetNextRecord(garbage, sizeof garbage, &record));
  print("end", cuptiActivityGetNextRecord(garbage, 0, &record));
  return 0;
}

// The detach table. argv[2]: the row.
bool g_finalize_now = false;
std::thread::id g_finalizing_thread;
thread_local bool t_hold = false;
std::atomic<bool> g_held{false}, g_let_go{false};
void finalize_at_exit(void*, CallbackDomain domain, std::uint32_t, const void* data) {
  while (t_hold && !g_let_go) {  // its first callback: an ENTER
    g_held = true;
    usleep(1000);
  }
  if (domain != kDomainDriverApi || !g_finalize_now || std::this_thread::get_id() != g_finalizing_thread)
    return;
  if (static_cast<const CallbackData*>(data)->callback_site != kApiExit) return;
  g_finalize_now = false;
  cuptiUnsubscribe(client().subscriber);
  print("finalize", cuptiFinalize());
}

int detach(const std::string& row) {
  Gpu gpu;
  print("subscribe", cuptiSubscribe(&client().subscriber, finalize_at_exit, nullptr));
  print("enable", client().enable(true));
  g_finalizing_thread = std::this_thread::get_id();
  CUgraphExec exec = row == "kernels" ? nullptr : gpu.graph();
  const auto replay = [&] { CU(cuGraphLaunch(exec, gpu.stream)); };
  const auto finalize_at_my_exit = [&](const std::function<void()>& call) {
    g_finalize_now = true;
    call();
  };
  if (row == "kernels") {
    gpu.launch(gpu.axpy);
    print("finalize", cuptiFinalize());
  } else if (row == "graph-own-exit") {
    replay();
    finalize_at_my_exit(replay);
  } else if (row == "graph-control-thread") {
    replay();
    std::thread([] { cuptiFinalize(); }).join();
  } else if (row == "disabled-then-replay") {
    replay();
    cuptiActivityDisable(kActivityConcurrentKernel);
    replay();
    finalize_at_my_exit(replay);
  } else if (row == "disabled-replay-enabled-replay") {
    replay();
    cuptiActivityDisable(kActivityConcurrentKernel);
    replay();
    cuptiActivityEnable(kActivityConcurrentKernel);
    replay();
    finalize_at_my_exit(replay);
  } else if (row == "disabled-replay-enabled") {
    replay();
    cuptiActivityDisable(kActivityConcurrentKernel);
    replay();
    cuptiActivityEnable(kActivityConcurrentKernel);
    finalize_at_my_exit([&] { gpu.launch(gpu.axpy); });
  } else if (row == "never-recorded") {
    cuptiActivityDisable(kActivityConcurrentKernel);
    replay();
    cuptiActivityEnable(kActivityConcurrentKernel);
    finalize_at_my_exit([&] { gpu.launch(gpu.axpy); });
  } else if (row == "held-at-enter") {
    std::thread held([&] {
      CU(cuCtxSetCurrent(gpu.context));
      t_hold = true;
      gpu.launch(gpu.axpy);
    });
    while (!g_held) usleep(1000);
    finalize_at_my_exit([&] { gpu.launch(gpu.axpy); });
    g_let_go = true;
    held.join();
  } else if (row == "disabled-idle") {
    replay();
    CU(cuCtxSynchronize());
    usleep(30'000);  // longer than SIMGPU_GRAPH_ACTIVE_MS of this test
    cuptiActivityDisable(kActivityConcurrentKernel);
    cuptiActivityFlushAll(1);
    finalize_at_my_exit([&] { gpu.launch(gpu.axpy); });
  } else if (row == "two-threads") {
    replay();
    std::thread([&] {
      CU(cuCtxSetCurrent(gpu.context));
      replay();
    }).join();
    finalize_at_my_exit(replay);
  } else if (row == "two-threads-unsubscribe") {
    replay();
    std::thread([&] {
      CU(cuCtxSetCurrent(gpu.context));
      replay();
    }).join();
    cuptiActivityDisable(kActivityConcurrentKernel);
    print("unsubscribe", cuptiUnsubscribe(client().subscriber));
    replay();
    print("again", client().attach());
  } else if (row == "late-graph-trace") {
    cuptiActivityEnable(kActivityGraphTrace);
    gpu.launch(gpu.axpy);
  }
  gpu.launch(gpu.axpy);
  CU(cuCtxSynchronize());
  print("survived", 1);
  return 0;
}

// What cuInit does with CUDA_INJECTION64_PATH: the injected library prints lines of its own.
int inject() {
  print("init", static_cast<std::uint64_t>(cuInit(0)));
  print("tid", static_cast<std::uint64_t>(gettid()));
  int count = 0;
  print("count", static_cast<std::uint64_t>(cuDeviceGetCount(&count)));
  return 0;
}

// In-order streams, concurrent with each other; events; host functions; fork.
int driver() {
  Gpu gpu;
  CUstream other = nullptr;
  CU(cuStreamCreate(&other, 0));
  CUevent begin = nullptr, end = nullptr;
  CU(cuEventCreate(&begin, 0));
  CU(cuEventCreate(&end, 0));
  const std::uint64_t before = simgpu_now_ns();
  CU(cuEventRecord(begin, gpu.stream));
  for (int i = 0; i < 4; ++i) CU(gpu.launch(gpu.spin, 20'000'000));
  CU(cuEventRecord(end, gpu.stream));
  for (int i = 0; i < 4; ++i) CU(gpu.launch(gpu.spin, 20'000'000, other));
  print("query_busy", static_cast<std::uint64_t>(cuStreamQuery(gpu.stream)));
  static std::atomic<std::uint64_t> host_ran{0};
  CU(cuLaunchHostFunc(
      gpu.stream, [](void*) { host_ran = simgpu_now_ns(); }, nullptr));
  CU(cuCtxSynchronize());
  print("query_done", static_cast<std::uint64_t>(cuStreamQuery(gpu.stream)));
  print("took_ns", simgpu_now_ns() - before);
  print("host_after_ns", host_ran - before);
  float ms = 0;
  CU(cuEventElapsedTime(&ms, begin, end));
  print("event_us", static_cast<std::uint64_t>(ms * 1000));
  print("gpu_ns", simgpu_gpu_ns());
  CUfunction missing = nullptr;
  print("missing_kernel", static_cast<std::uint64_t>(cuModuleGetFunction(&missing, gpu.module, "nope")));
  CUmodule module = nullptr;
  print("no_ptx", static_cast<std::uint64_t>(cuModuleLoadData(&module, "not PTX at all")));
  const void* table = nullptr;
  print("export_table", static_cast<std::uint64_t>(cuGetExportTable(&table, nullptr)));
  void* function = nullptr;
  int status = 0;
  CU(cuGetProcAddress_v2("cuMemAlloc", &function, 13000, 0, &status));
  print("proc_right", reinterpret_cast<CUresult (*)(CUdeviceptr*, size_t)>(function) == &cuMemAlloc_v2);
  std::fflush(stdout);
  if (fork() == 0) {
    print("child_launch", static_cast<std::uint64_t>(gpu.launch(gpu.axpy)));
    print("child_init", static_cast<std::uint64_t>(cuInit(0)));
    std::fflush(stdout);
    _exit(0);
  }
  return 0;
}

// SIMGPU_FAULTS on the second and the fourth and later launches.
int faults() {
  Gpu gpu;
  print("attach", client().attach());
  for (int i = 1; i <= 5; ++i) {
    print(("launch_" + std::to_string(i)).c_str(), static_cast<std::uint64_t>(gpu.launch(gpu.axpy)));
  }
  CU(cuCtxSynchronize());
  cuptiActivityFlushAll(0);
  print_client();
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  const std::string scenario = argc > 1 ? argv[1] : "";
  if (scenario == "mixed") return mixed();
  if (scenario == "threads") return threads();
  if (scenario == "incomplete") return incomplete();
  if (scenario == "reattach") return reattach();
  if (scenario == "errors") return errors();
  if (scenario == "inject") return inject();
  if (scenario == "driver") return driver();
  if (scenario == "faults") return faults();
  if (scenario == "detach" && argc > 2) return detach(argv[2]);
  std::fprintf(stderr, "no scenario '%s'\n", scenario.c_str());
  return 2;
}
