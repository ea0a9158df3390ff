// SPDX-License-Identifier: Apache-2.0
#include <cstdio>
#include <cstdlib>

#include "workload.h"

// Launches when told to: for each line on stdin, a number, it launches so many kernels, waits until they have
// run, and answers with the number of launches so far. Says "ready" first; ends at the end of its input or at
// a signal. So whoever holds the other end knows which launches fell into which window.
int main(int argc, char** argv) {
  const workload::Options options = workload::parse_options(argc, argv);
  workload::Device device;
  CUstream stream = nullptr;
  CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  const std::uint64_t begin = workload::now_ns();
  std::uint64_t launches = 0;
  std::puts("ready");
  std::fflush(stdout);
  char line[32];
  while (!workload::stop_requested() && std::fgets(line, sizeof line, stdin) != nullptr) {
    for (std::uint64_t left = std::strtoull(line, nullptr, 10); left > 0; --left) {
      CHECK(device.launch(launches++, stream, options.spin_ns));
    }
    CHECK(cuCtxSynchronize());
    std::printf("%llu\n", static_cast<unsigned long long>(launches));
    std::fflush(stdout);
  }
  const double elapsed = workload::seconds_since(begin);
  CHECK(cuCtxSynchronize());
  workload::print_truth("stepped", launches, elapsed, device.counts());
}
