// SPDX-License-Identifier: Apache-2.0
#include <thread>

#include "workload.h"

// Kernel launches from several threads on several streams, paced or at full speed.
namespace {

struct Run {
  const workload::Options& options;
  workload::Device& device;
  std::vector<CUstream> streams;
  std::atomic<std::uint64_t> launches{0};
};

// Thread i takes the streams i, i + threads, ...; with fewer streams than threads some are shared.
std::vector<CUstream> streams_of_thread(const Run& run, int thread) {
  std::vector<CUstream> mine;
  const auto count = static_cast<int>(run.streams.size());
  for (int i = thread; i < count; i += run.options.threads)
    mine.push_back(run.streams[static_cast<std::size_t>(i)]);
  if (mine.empty()) mine.push_back(run.streams[static_cast<std::size_t>(thread % count)]);
  return mine;
}

std::uint64_t share(std::uint64_t whole, int threads, int thread) {
  const auto n = static_cast<std::uint64_t>(threads);
  return whole / n + (static_cast<std::uint64_t>(thread) < whole % n ? 1 : 0);
}

void launch_from_thread(Run& run, int thread) {
  run.device.make_current();
  const std::vector<CUstream> streams = streams_of_thread(run, thread);
  const workload::Options& options = run.options;
  const std::uint64_t limit = share(options.iterations, options.threads, thread);
  workload::Pacer pacer(options.rate / options.threads, options.seconds);
  std::uint64_t launched = 0;
  while ((options.iterations == 0 || launched < limit) && pacer.next()) {
    CHECK(run.device.launch(launched, streams[launched % streams.size()], options.spin_ns));
    ++launched;
  }
  run.launches += launched;
}

}  // namespace

int main(int argc, char** argv) {
  const workload::Options options = workload::parse_options(argc, argv);
  workload::Device device;
  Run run{options, device, std::vector<CUstream>(static_cast<std::size_t>(options.streams)), {}};
  for (CUstream& stream : run.streams) CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  workload::sleep_seconds(options.delay);

  const std::uint64_t begin = workload::now_ns();
  std::vector<std::thread> threads;
  for (int i = 1; i < options.threads; ++i) threads.emplace_back([&run, i] { launch_from_thread(run, i); });
  launch_from_thread(run, 0);
  for (std::thread& thread : threads) thread.join();
  const double elapsed = workload::seconds_since(begin);
  CHECK(cuCtxSynchronize());
  workload::print_truth("launch_loop", run.launches, elapsed, device.counts());
}
