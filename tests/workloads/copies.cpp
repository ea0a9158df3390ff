// SPDX-License-Identifier: Apache-2.0
#include <cstring>

#include "workload.h"

// Copies in all directions and sets, synchronous and not, checked byte by byte at the end of each round.
namespace {

struct Counts {
  std::uint64_t up = 0, down = 0, across = 0, peer = 0, sets = 0;
};

void one_round(const workload::Device& device, std::uint64_t bytes, char* host, CUdeviceptr a, CUdeviceptr b,
               CUstream stream, Counts* counts) {
  std::memset(host, static_cast<int>(counts->up & 127), bytes);
  CHECK(cuMemcpyHtoD_v2(a, host, bytes));
  CHECK(cuMemcpyHtoDAsync_v2(b, host, bytes / 2, stream));
  counts->up += 2;
  CHECK(cuMemcpyDtoDAsync_v2(b, a, bytes, stream));
  counts->across += 1;
  CHECK(cuMemcpyPeerAsync(b, device.context(), a, device.context(), bytes / 4, stream));
  counts->peer += 1;
  CHECK(cuMemsetD8Async(a, 42, bytes, stream));
  CHECK(cuMemsetD32Async(b, 0x2b2b2b2b, bytes / 8, stream));
  counts->sets += 2;
  CHECK(cuMemcpyDtoHAsync_v2(host, a, bytes / 2, stream));
  CHECK(cuStreamSynchronize(stream));
  CHECK(cuMemcpyDtoH_v2(host + bytes / 2, b, bytes / 2));
  counts->down += 2;
  if (host[0] != 42 || host[bytes / 2] != 0x2b)
    workload::check(CUDA_ERROR_UNKNOWN, "the copied bytes are wrong");
}

}  // namespace

int main(int argc, char** argv) {
  workload::Options options = workload::parse_options(argc, argv);
  options.bytes = options.bytes < 64 ? 64 : options.bytes & ~std::uint64_t{63};
  workload::Device device;
  CUdeviceptr a = 0, b = 0;
  void* host = nullptr;
  CUstream stream = nullptr;
  CHECK(cuMemAlloc_v2(&a, options.bytes));
  CHECK(cuMemAlloc_v2(&b, options.bytes));
  CHECK(cuMemHostAlloc(&host, options.bytes, 0));
  CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  Counts counts;
  const std::uint64_t begin = workload::now_ns();
  workload::Pacer pacer(options.rate, options.seconds);
  while ((options.iterations == 0 || pacer.passed() < options.iterations) && pacer.next()) {
    one_round(device, options.bytes, static_cast<char*>(host), a, b, stream, &counts);
  }
  const double elapsed = workload::seconds_since(begin);
  CHECK(cuCtxSynchronize());
  workload::print_truth(
      "copies", 0, elapsed, device.counts(),
      ",\"rounds\":" + std::to_string(pacer.passed()) + ",\"HtoD\":" + std::to_string(counts.up) +
          ",\"DtoH\":" + std::to_string(counts.down) + ",\"DtoD\":" + std::to_string(counts.across) +
          ",\"peer\":" + std::to_string(counts.peer) + ",\"sets\":" + std::to_string(counts.sets));
}
