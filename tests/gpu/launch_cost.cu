// SPDX-License-Identifier: Apache-2.0
// How long one launch of an empty kernel takes on the launching thread. Launches back to back, synchronises every
// 512 launches outside the timed part, and prints one JSON line for each 100 ms: the middle of the interval
// (CLOCK_MONOTONIC ns) and the median of the batches' ns per launch. Ends by itself after the given seconds.
#include <cuda.h>
#include <time.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>

static const char kPtx[] = R"(
.version 7.0
.target sm_70
.address_size 64
.visible .entry empty() { ret; }
)";

static std::uint64_t now() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return static_cast<std::uint64_t>(t.tv_sec) * 1000000000ull + static_cast<std::uint64_t>(t.tv_nsec);
}

#define CHECK(call)                                            \
  do {                                                         \
    const CUresult result = (call);                            \
    if (result != CUDA_SUCCESS) {                              \
      std::fprintf(stderr, "%s: CUDA error %d\n", #call, result); \
      std::exit(1);                                            \
    }                                                          \
  } while (0)

int main(int argc, char** argv) {
  const double seconds = argc > 1 ? std::atof(argv[1]) : 3;
  CUdevice device;
  CUcontext context;
  CUmodule module;
  CUfunction function;
  CUstream stream;
  CHECK(cuInit(0));
  CHECK(cuDeviceGet(&device, 0));
  CHECK(cuDevicePrimaryCtxRetain(&context, device));
  CHECK(cuCtxSetCurrent(context));
  CHECK(cuModuleLoadData(&module, kPtx));
  CHECK(cuModuleGetFunction(&function, module, "empty"));
  CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  const std::uint64_t end = now() + static_cast<std::uint64_t>(seconds * 1e9);
  std::uint64_t launches = 0;
  while (now() < end) {
    const std::uint64_t begin = now();
    std::vector<double> batches;
    while (now() - begin < 100000000) {
      const std::uint64_t from = now();
      for (int i = 0; i < 512; ++i) CHECK(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, stream, nullptr, nullptr));
      batches.push_back(static_cast<double>(now() - from) / 512);
      launches += 512;
      CHECK(cuStreamSynchronize(stream));
    }
    std::sort(batches.begin(), batches.end());
    std::printf("{\"at_ns\":%llu,\"ns_per_launch\":%.1f}\n",
                static_cast<unsigned long long>((begin + now()) / 2), batches[batches.size() / 2]);
    std::fflush(stdout);
  }
  std::printf("{\"launches\":%llu}\n", static_cast<unsigned long long>(launches));
  return 0;
}
