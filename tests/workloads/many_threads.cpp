// SPDX-License-Identifier: Apache-2.0
#include <thread>

#include "workload.h"

// --threads (default 512) threads that live at once, each launching now and then on one of --streams streams.
int main(int argc, char** argv) {
  workload::Options options = workload::parse_options(argc, argv);
  if (options.threads == 1) options.threads = 512;
  if (options.rate <= 0) options.rate = 20'000;
  workload::Device device;
  std::vector<CUstream> streams(static_cast<std::size_t>(options.streams));
  for (CUstream& stream : streams) CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  std::atomic<std::uint64_t> launches{0};
  const std::uint64_t begin = workload::now_ns();
  std::vector<std::thread> threads;
  for (int t = 0; t < options.threads; ++t) {
    threads.emplace_back([&, t] {
      device.make_current();
      CUstream stream = streams[static_cast<std::size_t>(t) % streams.size()];
      const double period = options.threads / options.rate;
      std::uint64_t mine = 0;
      while (!workload::stop_requested() && (options.iterations == 0 || mine < options.iterations) &&
             (options.seconds == 0 || workload::seconds_since(begin) < options.seconds)) {
        CHECK(device.launch(mine++, stream, options.spin_ns));
        workload::sleep_seconds(period);
      }
      launches += mine;
    });
  }
  for (std::thread& thread : threads) thread.join();
  const double elapsed = workload::seconds_since(begin);
  CHECK(cuCtxSynchronize());
  workload::print_truth("many_threads", launches, elapsed, device.counts(),
                        ",\"threads\":" + std::to_string(options.threads));
}
