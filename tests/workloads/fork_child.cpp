// SPDX-License-Identifier: Apache-2.0
#include <sys/wait.h>
#include <unistd.h>

#include "workload.h"

// Launches, and forks a child every --delay seconds (default 1), which finds CUDA gone, does some work of its
// own and leaves with status 7. A child that ends otherwise ends the parent with status 1.
namespace {

void fork_once(workload::Device& device, CUstream stream) {
  const pid_t child = fork();
  if (child == 0) {
    // On a real driver, too, CUDA is unusable here: no call may succeed, and none may hang.
    const bool gone = device.launch(0, stream) != CUDA_SUCCESS && cuInit(0) != CUDA_SUCCESS;
    std::vector<char> work(1 << 20, 1);
    _exit(gone && work.back() == 1 ? 7 : 8);
  }
  int status = 0;
  if (waitpid(child, &status, 0) != child || !WIFEXITED(status) || WEXITSTATUS(status) != 7) {
    workload::check(CUDA_ERROR_UNKNOWN, "the forked child did not leave as it should");
  }
}

}  // namespace

int main(int argc, char** argv) {
  const workload::Options options = workload::parse_options(argc, argv);
  workload::Device device;
  CUstream stream = nullptr;
  CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  const double every = options.delay > 0 ? options.delay : 1;
  const std::uint64_t begin = workload::now_ns();
  std::uint64_t children = 0;
  workload::Pacer pacer(options.rate, options.seconds);
  while ((options.iterations == 0 || pacer.passed() < options.iterations) && pacer.next()) {
    CHECK(device.launch(pacer.passed(), stream, options.spin_ns));
    if (workload::seconds_since(begin) < every * static_cast<double>(children + 1)) continue;
    fork_once(device, stream);
    ++children;
  }
  const double elapsed = workload::seconds_since(begin);
  CHECK(cuCtxSynchronize());
  workload::print_truth("fork_child", pacer.passed(), elapsed, device.counts(),
                        ",\"children\":" + std::to_string(children));
}
