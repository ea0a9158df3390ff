// SPDX-License-Identifier: Apache-2.0
// What a client of CUPTI's leaves behind in a program that goes on without it: what one call of each kind costs the
// calling thread, and how long the device takes for kernels back to back, before the client came and after it left.
//
//   left_behind HOW    subscribed: subscribe and unsubscribe; disabled: activity recorded, too; finalized: and
//                      cuptiFinalize; nothing: no client at all
//
// One JSON line a look, {"when": "before" or "after", a call's name: median ns}. 3 looks before, 3 after.
#include <cuda.h>
#include <cuda_runtime.h>
#include <cupti.h>
#include <time.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

namespace {

#define CHECK(call)                                                                  \
  do {                                                                               \
    if (const int result = static_cast<int>(call); result != 0) {                    \
      std::fprintf(stderr, "%s: error %d\n", #call, result);                         \
      std::exit(1);                                                                  \
    }                                                                                \
  } while (0)

constexpr int kBatches = 60;
constexpr int kCallsInBatch = 300;
constexpr int kLooks = 3;

__global__ void empty() {}
__global__ void copy_one(const float* from, float* to) { to[threadIdx.x] = from[threadIdx.x] + 1; }

std::uint64_t now_ns() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return static_cast<std::uint64_t>(t.tv_sec) * 1'000'000'000 + static_cast<std::uint64_t>(t.tv_nsec);
}

// The median over the batches of what one call takes; what the batch left on the device is waited for outside.
double median_ns(const std::function<void()>& call) {
  std::vector<double> batches;
  for (int batch = 0; batch < kBatches; ++batch) {
    const std::uint64_t begin = now_ns();
    for (int i = 0; i < kCallsInBatch; ++i) call();
    batches.push_back(static_cast<double>(now_ns() - begin) / kCallsInBatch);
    CHECK(cudaDeviceSynchronize());
  }
  std::nth_element(batches.begin(), batches.begin() + kBatches / 2, batches.end());
  return batches[kBatches / 2];
}

struct Calls {
  cudaStream_t stream = nullptr;
  cudaEvent_t event = nullptr, from = nullptr, to = nullptr;
  cudaGraphExec_t graph = nullptr;
  CUfunction function = nullptr;
  float *device = nullptr, *other = nullptr;
  float host[256] = {};

  Calls() {
    CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    CHECK(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
    CHECK(cudaEventCreate(&from));
    CHECK(cudaEventCreate(&to));
    CHECK(cudaMalloc(&device, 1024));
    CHECK(cudaMalloc(&other, 1024));
    CHECK(cudaGetFuncBySymbol(&function, reinterpret_cast<const void*>(&empty)));
    cudaGraph_t recorded = nullptr;
    CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    for (int i = 0; i < 20; ++i) empty<<<1, 1, 0, stream>>>();
    CHECK(cudaStreamEndCapture(stream, &recorded));
    CHECK(cudaGraphInstantiate(&graph, recorded, 0));
  }

  // What the device needs for a kernel of many that wait for it already.
  double device_ns() {
    std::vector<double> looks;
    for (int i = 0; i < 15; ++i) {
      CHECK(cudaEventRecord(from, stream));
      for (int n = 0; n < 50; ++n) CHECK(cudaGraphLaunch(graph, stream));
      CHECK(cudaEventRecord(to, stream));
      CHECK(cudaEventSynchronize(to));
      float ms = 0;
      CHECK(cudaEventElapsedTime(&ms, from, to));
      looks.push_back(static_cast<double>(ms) * 1e6 / 1000);
    }
    std::nth_element(looks.begin(), looks.begin() + 7, looks.end());
    return looks[7];
  }

  void look(const char* when) {
    int which = 0;
    cudaStreamCaptureStatus status;
    std::printf("{\"when\": \"%s\"", when);
    const auto row = [](const char* name, double ns) { std::printf(", \"%s\": %.1f", name, ns); };
    row("cuLaunchKernel", median_ns([&] { CHECK(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, stream, nullptr, nullptr)); }));
    row("cudaLaunchKernel", median_ns([&] { empty<<<1, 1, 0, stream>>>(); }));
    row("cudaLaunchKernel with arguments", median_ns([&] { copy_one<<<1, 256, 0, stream>>>(device, other); }));
    row("cudaLaunchKernel, legacy stream", median_ns([&] { empty<<<1, 1>>>(); }));
    row("cudaGetLastError", median_ns([&] { CHECK(cudaGetLastError()); }));
    row("cudaGetDevice", median_ns([&] { CHECK(cudaGetDevice(&which)); }));
    row("cudaStreamIsCapturing", median_ns([&] { CHECK(cudaStreamIsCapturing(stream, &status)); }));
    row("cudaEventRecord", median_ns([&] { CHECK(cudaEventRecord(event, stream)); }));
    row("cudaEventQuery", median_ns([&] { (void)cudaEventQuery(event); }));
    row("cudaMemsetAsync", median_ns([&] { CHECK(cudaMemsetAsync(device, 0, 1024, stream)); }));
    row("cudaMemcpyAsync HtoD", median_ns([&] { CHECK(cudaMemcpyAsync(device, host, 1024, cudaMemcpyHostToDevice, stream)); }));
    row("cudaMemcpyAsync DtoD", median_ns([&] { CHECK(cudaMemcpyAsync(device, other, 1024, cudaMemcpyDeviceToDevice, stream)); }));
    row("cudaStreamSynchronize", median_ns([&] { CHECK(cudaStreamSynchronize(stream)); }));
    row("launch and cudaStreamSynchronize", median_ns([&] {
          empty<<<1, 1, 0, stream>>>();
          CHECK(cudaStreamSynchronize(stream));
        }));
    row("cudaGraphLaunch", median_ns([&] { CHECK(cudaGraphLaunch(graph, stream)); }));
    row("device, a kernel of a graph", device_ns());
    std::printf("}\n");
  }
};

void CUPTIAPI on_request(std::uint8_t** buffer, size_t* size, size_t* records) {
  *size = 1 << 20;
  *buffer = static_cast<std::uint8_t*>(aligned_alloc(8, *size));
  *records = 0;
}
void CUPTIAPI on_complete(CUcontext, std::uint32_t, std::uint8_t* buffer, size_t, size_t) { free(buffer); }
void CUPTIAPI on_callback(void*, CUpti_CallbackDomain, CUpti_CallbackId, const void*) {}

void come_and_go(const std::string& how, Calls& calls) {
  constexpr CUpti_ActivityKind kKinds[] = {CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, CUPTI_ACTIVITY_KIND_MEMCPY,
                                           CUPTI_ACTIVITY_KIND_MEMSET};
  CUpti_SubscriberHandle subscriber = nullptr;
  CHECK(cuptiSubscribe(&subscriber, on_callback, nullptr));
  CHECK(cuptiEnableCallback(1, subscriber, CUPTI_CB_DOMAIN_DRIVER_API, CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel));
  if (how != "subscribed") {
    CHECK(cuptiActivityRegisterCallbacks(on_request, on_complete));
    for (const CUpti_ActivityKind kind : kKinds) CHECK(cuptiActivityEnable(kind));
  }
  for (int i = 0; i < 2000; ++i) empty<<<1, 1, 0, calls.stream>>>();
  CHECK(cudaDeviceSynchronize());
  if (how != "subscribed") {
    for (const CUpti_ActivityKind kind : kKinds) CHECK(cuptiActivityDisable(kind));
    CHECK(cuptiActivityFlushAll(1));
  }
  CHECK(cuptiUnsubscribe(subscriber));
  if (how == "finalized") CHECK(cuptiFinalize());
}

}  // namespace

int main(int argc, char** argv) {
  const std::string how = argc > 1 ? argv[1] : "finalized";
  Calls calls;
  calls.look("warm");
  for (int i = 0; i < kLooks; ++i) calls.look("before");
  if (how != "nothing") come_and_go(how, calls);
  for (int i = 0; i < kLooks; ++i) calls.look("after");
}
