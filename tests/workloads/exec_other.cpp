// SPDX-License-Identifier: Apache-2.0
#include <unistd.h>

#include <cstdio>

#include "workload.h"

// Launches for --delay seconds (default 1), then becomes another program by exec: --command (run by sh), or
// itself once more with --seconds, which then ends as usual.
int main(int argc, char** argv) {
  const workload::Options options = workload::parse_options(argc, argv);
  const bool again = argc > 1 && std::string(argv[argc - 1]) == "--command=none";
  workload::Device device;
  CUstream stream = nullptr;
  CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  const std::uint64_t begin = workload::now_ns();
  const double before = options.delay > 0 ? options.delay : 1;
  workload::Pacer pacer(options.rate, again ? options.seconds : before);
  while (pacer.next()) CHECK(device.launch(pacer.passed(), stream, options.spin_ns));
  const double elapsed = workload::seconds_since(begin);
  CHECK(cuCtxSynchronize());
  workload::print_truth(again ? "exec_other after" : "exec_other before", pacer.passed(), elapsed,
                        device.counts());
  if (again || workload::stop_requested()) return 0;
  if (!options.command.empty()) {
    execl("/bin/sh", "sh", "-c", options.command.c_str(), nullptr);
  } else {
    std::vector<char*> arguments(argv, argv + argc);
    char last[] = "--command=none";
    arguments.push_back(last);
    arguments.push_back(nullptr);
    execv("/proc/self/exe", arguments.data());
  }
  std::perror("exec");
  return 1;
}
