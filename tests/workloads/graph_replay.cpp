// SPDX-License-Identifier: Apache-2.0
#include <thread>

#include "workload.h"

// Captures a graph of --nodes nodes (kernels, with a copy and a set among them) and replays it, each thread
// its own.
namespace {

CUgraphExec make_graph(workload::Device& device, CUstream stream, const workload::Options& options) {
  CUgraph graph = nullptr;
  CUgraphExec exec = nullptr;
  CHECK(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
  for (int node = 0; node < options.nodes; ++node) {
    if (node % 8 == 6) {
      CHECK(cuMemcpyDtoDAsync_v2(device.y(), device.x(), 8192, stream));
    } else if (node % 8 == 7) {
      CHECK(cuMemsetD8Async(device.x(), 0, 4096, stream));
    } else {
      CHECK(device.launch(static_cast<std::uint64_t>(node), stream, options.spin_ns));
    }
  }
  CHECK(cuStreamEndCapture(stream, &graph));
  CHECK(cuGraphInstantiateWithFlags(&exec, graph, 0));
  CHECK(cuGraphDestroy(graph));
  return exec;
}

std::uint64_t replay(workload::Device& device, const workload::Options& options) {
  device.make_current();
  CUstream stream = nullptr;
  CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  CUgraphExec exec = make_graph(device, stream, options);
  workload::sleep_seconds(options.delay);
  workload::Pacer pacer(options.rate / options.threads, options.seconds);
  while ((options.iterations == 0 || pacer.passed() < options.iterations) && pacer.next()) {
    CHECK(cuGraphLaunch(exec, stream));
  }
  CHECK(cuStreamSynchronize(stream));
  CHECK(cuGraphExecDestroy(exec));
  return pacer.passed();
}

}  // namespace

int main(int argc, char** argv) {
  const workload::Options options = workload::parse_options(argc, argv);
  workload::Device device;
  std::atomic<std::uint64_t> replays{0};
  const std::uint64_t begin = workload::now_ns();
  std::vector<std::thread> threads;
  for (int t = 1; t < options.threads; ++t) threads.emplace_back([&] { replays += replay(device, options); });
  replays += replay(device, options);
  for (std::thread& thread : threads) thread.join();
  const double elapsed = workload::seconds_since(begin);
  CHECK(cuCtxSynchronize());
  workload::print_truth(
      "graph_replay", replays, elapsed, {},
      ",\"replays\":" + std::to_string(replays) + ",\"nodes\":" + std::to_string(options.nodes));
}
