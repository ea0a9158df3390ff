// SPDX-License-Identifier: Apache-2.0
#include <cstdio>

#include "workload.h"

// After --delay seconds loads a module, launches from it --iterations times (10), waits, and unloads it; says
// so on a line of its own; then launches from another module until --seconds are over. Who attaches later has
// not seen the first one.
int main(int argc, char** argv) {
  const workload::Options options = workload::parse_options(argc, argv);
  workload::Device device;
  workload::sleep_seconds(options.delay);
  CUmodule module = nullptr;
  CUfunction function = nullptr;
  // Larger than the other one, so that it is known by its size.
  const std::string source = std::string(workload::kPtx) + "// " + std::string(1000, '-') + "\n";
  CHECK(cuModuleLoadData(&module, source.c_str()));
  CHECK(cuModuleGetFunction(&function, module, "_Z4spiny"));
  const std::uint64_t before = options.iterations != 0 ? options.iterations : 10;
  std::uint64_t no_time = 0;
  void* parameters[] = {&no_time};
  for (std::uint64_t launched = 0; launched < before; ++launched)
    CHECK(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, nullptr, parameters, nullptr));
  CHECK(cuCtxSynchronize());
  CHECK(cuModuleUnload(module));
  std::puts("unloaded");
  std::fflush(stdout);

  const std::uint64_t begin = workload::now_ns();
  workload::Pacer pacer(options.rate, options.seconds);
  while (pacer.next()) CHECK(device.launch(pacer.passed(), nullptr, options.spin_ns));
  const double elapsed = workload::seconds_since(begin);
  CHECK(cuCtxSynchronize());
  workload::print_truth("unloaded", before + pacer.passed(), elapsed, device.counts(),
                        ",\"before\":" + std::to_string(before));
}
