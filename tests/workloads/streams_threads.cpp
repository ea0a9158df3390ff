// SPDX-License-Identifier: Apache-2.0
#include <thread>

#include "workload.h"

// Many threads that each make streams, launch on all of them, tie them by events and destroy them again.
namespace {

void one_round(workload::Device& device, std::vector<CUstream>& streams, std::uint64_t spin_ns,
               std::atomic<std::uint64_t>* launches) {
  CUevent event = nullptr;
  CHECK(cuEventCreate(&event, CU_EVENT_DEFAULT));
  for (std::size_t i = 0; i < streams.size(); ++i) {
    CHECK(device.launch(i, streams[i], spin_ns));
    CHECK(cuEventRecord(event, streams[i]));
    CHECK(cuStreamWaitEvent(streams[(i + 1) % streams.size()], event, 0));
    CHECK(device.launch(i + 1, streams[(i + 1) % streams.size()], spin_ns));
  }
  *launches += 2 * streams.size();
  CHECK(cuEventDestroy_v2(event));
}

}  // namespace

int main(int argc, char** argv) {
  const workload::Options options = workload::parse_options(argc, argv);
  workload::Device device;
  std::atomic<std::uint64_t> launches{0};
  const std::uint64_t begin = workload::now_ns();
  std::vector<std::thread> threads;
  for (int t = 0; t < options.threads; ++t) {
    threads.emplace_back([&] {
      device.make_current();
      const double rounds_per_s = options.rate / (2.0 * options.threads * options.streams);
      workload::Pacer pacer(options.rate > 0 ? rounds_per_s : 0, options.seconds);
      std::vector<CUstream> streams(static_cast<std::size_t>(options.streams));
      for (CUstream& stream : streams) CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
      while ((options.iterations == 0 || pacer.passed() < options.iterations) && pacer.next()) {
        one_round(device, streams, options.spin_ns, &launches);
      }
      for (CUstream stream : streams) {
        CHECK(cuStreamSynchronize(stream));
        CHECK(cuStreamDestroy_v2(stream));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  const double elapsed = workload::seconds_since(begin);
  CHECK(cuCtxSynchronize());
  workload::print_truth("streams_threads", launches, elapsed, device.counts());
}
