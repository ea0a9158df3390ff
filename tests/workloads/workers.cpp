// SPDX-License-Identifier: Apache-2.0
#include <sys/wait.h>
#include <unistd.h>

#include <set>

#include "workload.h"

// As a data loader does: --nodes times it starts --threads workers, and goes on launching until they have
// ended. Every other worker is a fork that leaves CUDA alone and ends with status 7, the rest execute
// --command with the shell. A worker that ends otherwise ends the program with status 1.
namespace {

[[noreturn]] void work_in_fork() {
  const bool gone = cuInit(0) != CUDA_SUCCESS;  // CUDA does not survive a fork, on a real driver either
  std::vector<char> batch(1 << 20, 1);
  _exit(gone && batch.back() == 1 ? 7 : 8);
}

pid_t start_worker(bool forked_only, const std::string& command) {
  const pid_t worker = fork();
  if (worker != 0) return worker;
  if (forked_only) work_in_fork();
  execl("/bin/sh", "sh", "-c", command.c_str(), nullptr);
  _exit(9);
}

// False when it did not end as it should.
bool ended_well(int status, bool forked_only) {
  return WIFEXITED(status) && WEXITSTATUS(status) == (forked_only ? 7 : 0);
}

}  // namespace

int main(int argc, char** argv) {
  const workload::Options options = workload::parse_options(argc, argv);
  workload::Device device;
  CUstream stream = nullptr;
  CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  workload::sleep_seconds(options.delay);
  const std::uint64_t begin = workload::now_ns();
  std::uint64_t launches = 0;
  for (int generation = 0; generation < options.nodes; ++generation) {
    std::set<pid_t> forked;
    std::set<pid_t> executed;
    for (int i = 0; i < options.threads; ++i)
      (i % 2 == 0 ? forked : executed).insert(start_worker(i % 2 == 0, options.command));
    while (!forked.empty() || !executed.empty()) {
      CHECK(device.launch(launches++, stream, options.spin_ns));
      workload::sleep_seconds(0.005);
      int status = 0;
      const pid_t ended = waitpid(-1, &status, WNOHANG);
      if (ended == 0) continue;
      const bool forked_only = forked.erase(ended) != 0;
      executed.erase(ended);
      if (ended < 0 || !ended_well(status, forked_only))
        workload::check(CUDA_ERROR_UNKNOWN, "a worker did not end as it should");
    }
  }
  const double elapsed = workload::seconds_since(begin);
  CHECK(cuCtxSynchronize());
  workload::print_truth("workers", launches, elapsed, device.counts());
}
