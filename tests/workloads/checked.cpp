// SPDX-License-Identifier: Apache-2.0
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <thread>

#include "workload.h"

// Threads that check what they compute. Of --threads the first --graphs replay a graph, the others
// launch kernels; each works in rounds of --round operations on memory of its own, and the bytes of every
// round must be those of its first; --iterations is the number of rounds of each. With --round 0 the threads
// launch empty kernels and never look back. Every 100 ms a line says how far each has come, so that who reads
// along sees what an attach did to them.
namespace {

constexpr int kElements = 4096;
constexpr std::size_t kBytes = kElements * sizeof(float);

// Written by its thread, read by main's.
struct alignas(64) Progress {
  std::atomic<std::uint64_t> operations{0}, rounds{0}, wrong{0}, checksum{0};
};

struct Run {
  const workload::Options& options;
  workload::Device& device;
  std::uint64_t end_ns;
  std::vector<Progress> progress;
  std::atomic<int> working;
  std::atomic<std::uint64_t> kernels{0}, replays{0};
};

bool over(const Run& run) { return workload::stop_requested() || workload::now_ns() >= run.end_ns; }

// While the calm file is there: a thousand operations a second at most.
void stay_calm(const Run& run) {
  if (!run.options.calm_file.empty() && ::access(run.options.calm_file.c_str(), F_OK) == 0)
    workload::sleep_seconds(0.05);
}

class Worker {
 public:
  Worker(Run& run, int number) : run_(run), mine_(run.progress[static_cast<std::size_t>(number)]) {
    run_.device.make_current();
    CHECK(cuStreamCreate(&stream_, CU_STREAM_NON_BLOCKING));
    for (CUdeviceptr* memory : {&x_, &y_, &z_}) CHECK(cuMemAlloc_v2(memory, kBytes));
    result_.resize(3 * kBytes / sizeof(std::uint64_t));
    if (number < run.options.graphs) make_graph();
  }

  void work() {
    const std::uint64_t rounds = run_.options.iterations;
    while (!over(run_) && (rounds == 0 || mine_.rounds.load(std::memory_order_relaxed) < rounds)) {
      stay_calm(run_);
      run_.options.round == 0 ? launch_empty_kernels() : check_round();
    }
    CHECK(cuStreamSynchronize(stream_));
    if (exec_ != nullptr) CHECK(cuGraphExecDestroy(exec_));
    run_.working.fetch_sub(1, std::memory_order_relaxed);
  }

 private:
  // y += 1.5 x: how often it ran is in the result.
  void accumulate() {
    int elements = kElements;
    float factor = 1.5F;
    void* parameters[] = {&elements, &factor, &x_, &y_};
    CHECK(cuLaunchKernel(run_.device.axpy(), kElements / 256, 1, 1, 256, 1, 1, 0, stream_, parameters,
                         nullptr));
  }

  void fill(float value) {
    int elements = kElements;
    void* parameters[] = {&x_, &elements, &value};
    CHECK(cuLaunchKernel(run_.device.fill(), kElements / 256, 1, 1, 256, 1, 1, 0, stream_, parameters,
                         nullptr));
  }

  void make_graph() {
    CUgraph graph = nullptr;
    CHECK(cuStreamBeginCapture_v2(stream_, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
    for (int node = 0; node < run_.options.nodes; ++node) {
      if (node % 8 == 6) {
        CHECK(cuMemcpyDtoDAsync_v2(z_, y_, kBytes, stream_));
      } else if (node % 8 == 7) {
        CHECK(cuMemsetD8Async(z_, 0, kBytes / 2, stream_));
      } else if (node % 2 == 0) {
        fill(node % 4 == 0 ? 0.5F : 0.25F);
      } else {
        accumulate();
      }
    }
    CHECK(cuStreamEndCapture(stream_, &graph));
    CHECK(cuGraphInstantiateWithFlags(&exec_, graph, 0));
    CHECK(cuGraphDestroy(graph));
  }

  void operate() {
    if (exec_ != nullptr) {
      CHECK(cuGraphLaunch(exec_, stream_));
      run_.replays.fetch_add(1, std::memory_order_relaxed);
    } else {
      accumulate();
      run_.kernels.fetch_add(1, std::memory_order_relaxed);
    }
    mine_.operations.fetch_add(1, std::memory_order_relaxed);
  }

  void check_round() {
    for (const CUdeviceptr memory : {x_, y_, z_}) CHECK(cuMemsetD8Async(memory, 0, kBytes, stream_));
    if (exec_ == nullptr) {
      fill(0.5F);
      run_.kernels.fetch_add(1, std::memory_order_relaxed);
    }
    for (std::uint64_t left = run_.options.round; left > 0; --left) operate();
    if (mine_.rounds.load(std::memory_order_relaxed) + 1 == run_.options.spoil)
      CHECK(cuMemsetD8Async(y_, 1, 1, stream_));
    std::size_t at = 0;
    for (const CUdeviceptr memory : {x_, y_, z_}) {
      CHECK(cuMemcpyDtoHAsync_v2(reinterpret_cast<char*>(result_.data()) + at, memory, kBytes, stream_));
      at += kBytes;
    }
    CHECK(cuStreamSynchronize(stream_));
    const std::uint64_t checksum = sum();
    if (mine_.rounds.fetch_add(1, std::memory_order_relaxed) == 0) {
      mine_.checksum.store(checksum, std::memory_order_relaxed);
    } else if (checksum != mine_.checksum.load(std::memory_order_relaxed)) {
      mine_.wrong.fetch_add(1, std::memory_order_relaxed);
    }
  }

  void launch_empty_kernels() {
    std::uint64_t no_time = 0;
    void* parameters[] = {&no_time};
    for (int left = 64; left > 0; --left) {
      CHECK(cuLaunchKernel(run_.device.spin(), 1, 1, 1, 1, 1, 1, 0, stream_, parameters, nullptr));
      mine_.operations.fetch_add(1, std::memory_order_relaxed);
    }
    run_.kernels.fetch_add(64, std::memory_order_relaxed);
  }

  // FNV-1a, a word at a time.
  [[nodiscard]] std::uint64_t sum() const {
    std::uint64_t hash = 0xcbf29ce484222325u;
    for (const std::uint64_t word : result_) hash = (hash ^ word) * 0x100000001b3u;
    return hash;
  }

  Run& run_;
  Progress& mine_;
  CUstream stream_ = nullptr;
  CUgraphExec exec_ = nullptr;
  CUdeviceptr x_ = 0, y_ = 0, z_ = 0;
  std::vector<std::uint64_t> result_;
};

std::string list(const Run& run, std::atomic<std::uint64_t> Progress::*field) {
  std::string text;
  for (const Progress& one : run.progress)
    text += (text.empty() ? "" : ",") + std::to_string((one.*field).load());
  return "[" + text + "]";
}

void report(const Run& run) {
  std::printf("{\"at_ns\":%llu,\"operations\":%s,\"rounds\":%s,\"wrong\":%s}\n",
              static_cast<unsigned long long>(workload::now_ns()), list(run, &Progress::operations).c_str(),
              list(run, &Progress::rounds).c_str(), list(run, &Progress::wrong).c_str());
  std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) {
  const workload::Options options = workload::parse_options(argc, argv);
  workload::Device device;
  const std::uint64_t begin = workload::now_ns();
  const std::uint64_t end =
      options.seconds > 0 ? begin + static_cast<std::uint64_t>(options.seconds * 1e9) : ~std::uint64_t{0};
  Run run{options,         device, end, std::vector<Progress>(static_cast<std::size_t>(options.threads)),
          options.threads, {},     {}};
  std::vector<std::thread> threads;
  for (int number = 0; number < options.threads; ++number)
    threads.emplace_back([&run, number] { Worker(run, number).work(); });
  while (!over(run) && run.working.load(std::memory_order_relaxed) > 0) {
    report(run);
    workload::sleep_seconds(0.1);
  }
  for (std::thread& thread : threads) thread.join();
  report(run);
  const double elapsed = workload::seconds_since(begin);
  CHECK(cuCtxSynchronize());
  workload::print_truth(
      "checked", run.kernels + run.replays, elapsed, {},
      ",\"replays\":" + std::to_string(run.replays) + ",\"rounds\":" + list(run, &Progress::rounds) +
          ",\"wrong\":" + list(run, &Progress::wrong) + ",\"checksums\":" + list(run, &Progress::checksum));
}
