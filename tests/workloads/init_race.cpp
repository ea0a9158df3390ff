// SPDX-License-Identifier: Apache-2.0
#include <atomic>
#include <thread>
#include <vector>

#include "workload.h"

// --threads threads call cuInit at the same moment, before anybody else has; then each launches --iterations
// kernels.
int main(int argc, char** argv) {
  const workload::Options options = workload::parse_options(argc, argv);
  std::atomic<int> waiting{options.threads};
  std::vector<std::thread> threads;
  for (int i = 0; i < options.threads; ++i) {
    threads.emplace_back([&waiting] {
      waiting.fetch_sub(1);
      while (waiting.load() > 0) {
      }
      CHECK(cuInit(0));
    });
  }
  for (std::thread& thread : threads) thread.join();
  threads.clear();

  workload::Device device;
  CUstream stream = nullptr;
  CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  const std::uint64_t begin = workload::now_ns();
  for (int i = 0; i < options.threads; ++i) {
    threads.emplace_back([&] {
      device.make_current();
      for (std::uint64_t n = 0; n < options.iterations; ++n) CHECK(device.launch(n, stream, options.spin_ns));
    });
  }
  for (std::thread& thread : threads) thread.join();
  const double elapsed = workload::seconds_since(begin);
  CHECK(cuCtxSynchronize());
  workload::print_truth("init_race", static_cast<std::uint64_t>(options.threads) * options.iterations,
                        elapsed, device.counts());
}
