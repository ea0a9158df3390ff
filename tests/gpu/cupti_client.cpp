// SPDX-License-Identifier: Apache-2.0
#include "cupti_client.h"

#include <sys/mman.h>

#include <cstdlib>

namespace cupti_client {

Subscriber g_subscriber = nullptr;
std::atomic<bool> g_finalize{false}, g_finalized{false};
thread_local bool t_may_finalize = false;

std::atomic<const char*> g_step{"nothing"};
std::atomic<bool> g_armed{false};

namespace {

void* g_library = nullptr;

constexpr std::size_t kBufferBytes = 256 << 10;
constexpr std::uint32_t kLaunchCbids[] = {115, 116, 117, 307, 442, 477, 478, 480, 514, 515, 652, 653};
void requested(std::uint8_t** buffer, std::size_t* size, std::size_t* most) {
  *size = kBufferBytes;
  *most = 0;
  *buffer = static_cast<std::uint8_t*>(
      mmap(nullptr, kBufferBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
}
std::atomic<std::uint64_t> g_bytes_given{0};  // of records

void completed(void*, std::uint32_t, std::uint8_t* buffer, std::size_t, std::size_t valid) {
  g_bytes_given += valid;
  munmap(buffer, kBufferBytes);
}

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

long rss_kib() {
  long pages = 0;
  if (std::FILE* file = std::fopen("/proc/self/statm", "r")) {
    (void)!std::fscanf(file, "%*d %ld", &pages);
    std::fclose(file);
  }
  return pages * 4;
}

using MemGetInfo = CUresult (*)(std::size_t*, std::size_t*);  // the double has no device memory to tell of

std::size_t device_free_kib() {
  const auto memory = reinterpret_cast<MemGetInfo>(dlsym(RTLD_DEFAULT, "cuMemGetInfo_v2"));
  std::size_t free_bytes = 0, total = 0;
  if (memory != nullptr) CHECK(memory(&free_bytes, &total));
  return free_bytes >> 10;
}

}  // namespace

void load() {
  g_library = dlopen("libcupti.so.13", RTLD_NOW);
  if (g_library != nullptr) return;
  std::printf("%s\n", dlerror());
  std::exit(1);
}

void* symbol(const char* name) { return dlsym(g_library, name); }

CUstream make_stream() {
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

void timed(const char* name, const std::function<void()>& call) {
  g_step = name;
  const std::uint64_t begin = workload::now_ns();
  call();
  const double ms = static_cast<double>(workload::now_ns() - begin) * 1e-6;
  if (ms > 8) std::printf("fact   %s took %.1f ms\n", name, ms);
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

void print_held(const char* when) {
  std::printf("fact   %s: RSS %ld KiB, device free %zu KiB, %llu MiB of records given\n", when, rss_kib(),
              device_free_kib(), static_cast<unsigned long long>(g_bytes_given >> 20));
}

}  // namespace cupti_client
