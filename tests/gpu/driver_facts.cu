// SPDX-License-Identifier: Apache-2.0
// Facts about the driver that the shim and the doubles are built on, measured on the machine this runs on:
// which driver callbacks each runtime and driver call fires, which of them share their correlation id with an
// activity record, and what a process looks like before and after it has a CUDA context.
// Prints one line a fact: "fact <subject>: <what was seen>".
#include <cuda.h>
#include <cuda_runtime.h>
#include <cupti.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <vector>

namespace {

std::mutex g_mutex;
std::vector<std::pair<std::uint32_t, std::uint32_t>> g_calls;  // cbid, correlation
std::map<std::uint32_t, std::string> g_records;                // correlation -> kinds of its records
std::map<std::uint32_t, int> g_resources;

void CUPTIAPI on_callback(void*, CUpti_CallbackDomain domain, CUpti_CallbackId cbid, const void* data) {
  if (domain == CUPTI_CB_DOMAIN_RESOURCE) {
    const std::lock_guard lock(g_mutex);
    ++g_resources[cbid];
    return;
  }
  if (domain != CUPTI_CB_DOMAIN_DRIVER_API) return;
  const auto* call = static_cast<const CUpti_CallbackData*>(data);
  if (call->callbackSite != CUPTI_API_ENTER) return;
  const std::lock_guard lock(g_mutex);
  g_calls.emplace_back(cbid, call->correlationId);
}

void CUPTIAPI on_request(std::uint8_t** buffer, size_t* size, size_t* records) {
  *size = 1 << 20;
  *buffer = static_cast<std::uint8_t*>(aligned_alloc(8, *size));
  *records = 0;
}

void note(std::uint32_t correlation, const char* kind) {
  const std::lock_guard lock(g_mutex);
  g_records[correlation] += std::string(g_records[correlation].empty() ? "" : "+") + kind;
}

void CUPTIAPI on_complete(CUcontext, std::uint32_t, std::uint8_t* buffer, size_t, size_t valid) {
  CUpti_Activity* record = nullptr;
  while (valid > 0 && cuptiActivityGetNextRecord(buffer, valid, &record) == CUPTI_SUCCESS) {
    switch (record->kind) {
      case CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL:
        note(reinterpret_cast<CUpti_ActivityKernel9*>(record)->correlationId, "kernel");
        break;
      case CUPTI_ACTIVITY_KIND_MEMCPY:
        note(reinterpret_cast<CUpti_ActivityMemcpy5*>(record)->correlationId, "memcpy");
        break;
      case CUPTI_ACTIVITY_KIND_MEMCPY2:
        note(reinterpret_cast<CUpti_ActivityMemcpyPtoP4*>(record)->correlationId, "memcpy2");
        break;
      case CUPTI_ACTIVITY_KIND_MEMSET:
        note(reinterpret_cast<CUpti_ActivityMemset4*>(record)->correlationId, "memset");
        break;
      default: break;
    }
  }
  free(buffer);
}

const char* name_of(std::uint32_t cbid) {
  const char* name = nullptr;
  return cuptiGetCallbackName(CUPTI_CB_DOMAIN_DRIVER_API, cbid, &name) == CUPTI_SUCCESS ? name : "?";
}

template <typename Call>
void observe(const char* subject, Call call) {
  cudaDeviceSynchronize();
  cuptiActivityFlushAll(1);
  {
    const std::lock_guard lock(g_mutex);
    g_calls.clear();
    g_records.clear();
  }
  call();
  cudaError_t error = cudaDeviceSynchronize();
  cuptiActivityFlushAll(1);
  const std::lock_guard lock(g_mutex);
  std::string text;
  std::set<std::uint32_t> explained;
  for (const auto& [cbid, correlation] : g_calls) {
    const std::string name = name_of(cbid);
    if (name == "cuCtxSynchronize" || name.rfind("cuCtxGet", 0) == 0) continue;
    text += " " + name + "(" + std::to_string(cbid) + ")";
    const auto found = g_records.find(correlation);
    if (found != g_records.end()) {
      text += "->" + found->second;
      explained.insert(correlation);
    }
  }
  for (const auto& [correlation, kinds] : g_records)
    if (!explained.count(correlation)) text += " UNEXPLAINED:" + kinds;
  std::printf("fact %s:%s%s%s\n", subject, text.empty() ? " nothing" : text.c_str(), error ? " ERROR " : "",
              error ? cudaGetErrorString(error) : "");
}

void print_maps(const char* when) {
  FILE* maps = std::fopen("/proc/self/maps", "r");
  char line[512];
  std::map<std::string, int> devices;
  int total = 0;
  while (maps != nullptr && std::fgets(line, sizeof line, maps) != nullptr) {
    ++total;
    const char* path = std::strstr(line, "/dev/");
    if (path != nullptr) ++devices[std::string(path, std::strcspn(path, "\n"))];
  }
  if (maps != nullptr) std::fclose(maps);
  std::printf("fact maps %s: %d lines", when, total);
  for (const auto& [path, count] : devices) std::printf(" %s x%d", path.c_str(), count);
  unsigned flags = 0;
  int active = -1;
  cuDevicePrimaryCtxGetState(0, &flags, &active);
  std::map<std::string, int> fds;
  for (int fd = 0; fd < 256; ++fd) {
    char link[64], target[256];
    std::snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    const ssize_t n = readlink(link, target, sizeof target - 1);
    if (n > 0) {
      target[n] = 0;
      if (std::strncmp(target, "/dev/nv", 7) == 0) ++fds[target];
    }
  }
  std::printf("; primary active=%d; fds", active);
  for (const auto& [path, count] : fds) std::printf(" %s x%d", path.c_str(), count);
  std::printf("\n");
}

__global__ void empty() {}
__global__ void add(float* x) { x[threadIdx.x] += 1; }

}  // namespace

int main(int argc, char** argv) {
  cuInit(0);
  print_maps("after cuInit");
  if (argc > 1 && std::string(argv[1]) == "create") {
    CUcontext context;
    CUdevice device;
    cuDeviceGet(&device, 0);
#if CUDA_VERSION >= 13000
    cuCtxCreate(&context, nullptr, 0, device);
#else
    cuCtxCreate(&context, 0, device);
#endif
    print_maps("after cuCtxCreate");
    cuCtxDestroy(context);
    print_maps("after cuCtxDestroy");
    return 0;
  }
  cudaFree(nullptr);
  print_maps("after cudaFree(0)");

  CUpti_SubscriberHandle subscriber;
  if (cuptiSubscribe(&subscriber, on_callback, nullptr) != CUPTI_SUCCESS) return 1;
  cuptiActivityRegisterCallbacks(on_request, on_complete);
  for (CUpti_ActivityKind kind : {CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, CUPTI_ACTIVITY_KIND_MEMCPY,
                                  CUPTI_ACTIVITY_KIND_MEMCPY2, CUPTI_ACTIVITY_KIND_MEMSET})
    cuptiActivityEnable(kind);
  cuptiEnableDomain(1, subscriber, CUPTI_CB_DOMAIN_DRIVER_API);
  cuptiEnableDomain(1, subscriber, CUPTI_CB_DOMAIN_RESOURCE);

  const size_t n = 1 << 16;
  float *a, *b, *pinned;
  std::vector<float> host(n);
  cudaStream_t stream;
  cudaMalloc(&a, n * 4);
  cudaMalloc(&b, n * 4);
  cudaMallocHost(&pinned, n * 4);
  cudaStreamCreate(&stream);
  observe("first launch", [&] { empty<<<1, 1>>>(); });
  observe("<<<>>>", [&] { empty<<<1, 1, 0, stream>>>(); });
  observe("cudaMemcpy HtoD pageable", [&] { cudaMemcpy(a, host.data(), n * 4, cudaMemcpyHostToDevice); });
  observe("cudaMemcpy HtoD small", [&] { cudaMemcpy(a, host.data(), 64, cudaMemcpyHostToDevice); });
  observe("cudaMemcpy HtoD pinned", [&] { cudaMemcpy(a, pinned, n * 4, cudaMemcpyHostToDevice); });
  observe("cudaMemcpy DtoH", [&] { cudaMemcpy(host.data(), a, n * 4, cudaMemcpyDeviceToHost); });
  observe("cudaMemcpy DtoD", [&] { cudaMemcpy(b, a, n * 4, cudaMemcpyDeviceToDevice); });
  observe("cudaMemcpy Default", [&] { cudaMemcpy(b, a, n * 4, cudaMemcpyDefault); });
  observe("cudaMemcpyAsync HtoD", [&] { cudaMemcpyAsync(a, pinned, n * 4, cudaMemcpyHostToDevice, stream); });
  observe("cudaMemcpyAsync DtoH", [&] { cudaMemcpyAsync(pinned, a, n * 4, cudaMemcpyDeviceToHost, stream); });
  observe("cudaMemcpyAsync DtoD", [&] { cudaMemcpyAsync(b, a, n * 4, cudaMemcpyDeviceToDevice, stream); });
  observe("cudaMemcpy2D", [&] { cudaMemcpy2D(b, 256, a, 256, 128, 64, cudaMemcpyDeviceToDevice); });
  observe("cudaMemcpy2DAsync", [&] { cudaMemcpy2DAsync(b, 256, a, 256, 128, 64, cudaMemcpyDeviceToDevice, stream); });
  observe("cudaMemcpyPeer", [&] { cudaMemcpyPeer(b, 0, a, 0, n * 4); });
  observe("cudaMemset", [&] { cudaMemset(a, 1, n * 4); });
  observe("cudaMemsetAsync", [&] { cudaMemsetAsync(a, 1, n * 4, stream); });
  observe("cudaMemset2D", [&] { cudaMemset2D(a, 256, 1, 128, 64); });
  observe("cuMemcpyHtoD", [&] { cuMemcpyHtoD(reinterpret_cast<CUdeviceptr>(a), host.data(), n * 4); });
  observe("cuMemcpyDtoDAsync", [&] { cuMemcpyDtoDAsync(reinterpret_cast<CUdeviceptr>(b), reinterpret_cast<CUdeviceptr>(a), n * 4, stream); });
  observe("cuMemsetD32Async", [&] { cuMemsetD32Async(reinterpret_cast<CUdeviceptr>(a), 1, n, stream); });
  observe("cuMemsetD8", [&] { cuMemsetD8(reinterpret_cast<CUdeviceptr>(a), 1, n); });
  observe("cudaStreamSynchronize", [&] { cudaStreamSynchronize(stream); });
  observe("cudaEventSynchronize", [&] {
    cudaEvent_t event;
    cudaEventCreate(&event);
    cudaEventRecord(event, stream);
    cudaEventSynchronize(event);
    cudaEventDestroy(event);
  });
  observe("cudaLaunchHostFunc", [&] { cudaLaunchHostFunc(stream, [](void*) {}, nullptr); });

  g_resources.clear();
  cudaGraph_t graph;
  cudaGraphExec_t exec;
  observe("capture kernel+copy+set", [&] {
    cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal);
    add<<<1, 64, 0, stream>>>(a);
    add<<<1, 64, 0, stream>>>(b);
    cudaMemcpyAsync(b, a, n * 4, cudaMemcpyDeviceToDevice, stream);
    cudaMemsetAsync(a, 0, n * 4, stream);
    cudaStreamEndCapture(stream, &graph);
  });
  observe("cudaGraphInstantiate", [&] { cudaGraphInstantiate(&exec, graph, 0); });
  observe("cudaGraphLaunch first", [&] { cudaGraphLaunch(exec, stream); });
  observe("cudaGraphLaunch", [&] { cudaGraphLaunch(exec, stream); });
  observe("cudaGraphLaunch x2", [&] {
    cudaGraphLaunch(exec, stream);
    cudaGraphLaunch(exec, stream);
  });
  std::printf("fact resource callbacks around the graph:");
  for (const auto& [cbid, count] : g_resources) std::printf(" %u x%d", cbid, count);
  std::printf("\n");
  observe("failed launch", [&] {
    empty<<<1, 4096>>>();
    cudaGetLastError();
  });
  std::uint32_t version = 0;
  int driver = 0;
  cuptiGetVersion(&version);
  cuDriverGetVersion(&driver);
  std::printf("fact versions: cupti %u driver %d\n", version, driver);
  cuptiUnsubscribe(subscriber);
  cuptiFinalize();
  return 0;
}
