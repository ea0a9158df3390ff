// SPDX-License-Identifier: Apache-2.0
#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "workload.h"

// Launches when told to: for each line on stdin, a number, it launches so many kernels, waits until they have
// run, and answers with the number of launches so far. `capture N` captures N launches into a graph that is
// thrown away: calls that never run. `timestamps` registers a clock of its own with CUPTI. Says "ready"
// first; ends at the end of its input or at a signal. So whoever holds the other end knows what fell into
// which window.
namespace {

struct Steps {
  const workload::Options& options;
  workload::Device& device;
  CUstream stream = nullptr;
  std::uint64_t launches = 0;

  void launch(std::uint64_t count) {
    for (; count > 0; --count) CHECK(device.launch(launches++, stream, options.spin_ns));
  }

  void capture(std::uint64_t count) {
    CUgraph graph = nullptr;
    CHECK(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
    launch(count);
    CHECK(cuStreamEndCapture(stream, &graph));
    CHECK(cuGraphDestroy(graph));
  }
};

std::uint64_t other_clock() { return 3 * workload::now_ns(); }

// What Kineto does when it is loaded beside us: the registration is the process's, not the client's.
void take_timestamps() {
  using Register = int (*)(std::uint64_t(*)());
  void* cupti = dlopen("libcupti.so.13", RTLD_NOW | RTLD_NOLOAD);
  const auto call = cupti == nullptr
                        ? nullptr
                        : reinterpret_cast<Register>(dlsym(cupti, "cuptiActivityRegisterTimestampCallback"));
  if (call == nullptr || call(other_clock) != 0) {
    std::fprintf(stderr, "stepped: no timestamp callback could be registered\n");
    std::exit(1);
  }
}

}  // namespace

int main(int argc, char** argv) {
  const workload::Options options = workload::parse_options(argc, argv);
  workload::Device device;
  Steps steps{options, device};
  CHECK(cuStreamCreate(&steps.stream, CU_STREAM_NON_BLOCKING));
  const std::uint64_t begin = workload::now_ns();
  std::puts("ready");
  std::fflush(stdout);
  char line[64];
  while (!workload::stop_requested() && std::fgets(line, sizeof line, stdin) != nullptr) {
    if (std::strncmp(line, "capture ", 8) == 0) {
      steps.capture(std::strtoull(line + 8, nullptr, 10));
    } else if (std::strcmp(line, "timestamps\n") == 0) {
      take_timestamps();
    } else {
      steps.launch(std::strtoull(line, nullptr, 10));
    }
    CHECK(cuCtxSynchronize());
    std::printf("%llu\n", static_cast<unsigned long long>(steps.launches));
    std::fflush(stdout);
  }
  const double elapsed = workload::seconds_since(begin);
  CHECK(cuCtxSynchronize());
  workload::print_truth("stepped", steps.launches, elapsed, device.counts());
}
