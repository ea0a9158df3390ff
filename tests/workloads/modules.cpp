// SPDX-License-Identifier: Apache-2.0
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string>

#include "workload.h"

// Loads and unloads modules when told to, each line on stdin a command, answered by the same line:
//   load N      a module of its own bytes, number N
//   launch N    one kernel of it, waited for
//   unload N
// Says "ready" first, once there is a context; ends at the end of its input or at a signal.
namespace {

std::map<int, CUmodule> g_modules;

void load(int number) {
  const std::string text = std::string(workload::kPtx) + "\n// module " + std::to_string(number) + "\n";
  CHECK(cuModuleLoadData(&g_modules[number], text.c_str()));
}

void launch(int number) {
  CUfunction function = nullptr;
  CHECK(cuModuleGetFunction(&function, g_modules[number], "_Z4spiny"));
  unsigned long long ns = 2000;
  void* parameters[] = {&ns};
  CHECK(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, nullptr, parameters, nullptr));
  CHECK(cuCtxSynchronize());
}

}  // namespace

int main(int argc, char** argv) {
  (void)workload::parse_options(argc, argv);
  CUcontext context = nullptr;
  CHECK(cuInit(0));
  CHECK(cuDevicePrimaryCtxRetain(&context, 0));
  CHECK(cuCtxSetCurrent(context));
  std::puts("ready");
  std::fflush(stdout);
  const std::uint64_t begin = workload::now_ns();
  std::uint64_t launches = 0;
  char line[64];
  while (!workload::stop_requested() && std::fgets(line, sizeof line, stdin) != nullptr) {
    char verb[16] = {};
    int number = 0;
    if (std::sscanf(line, "%15s %d", verb, &number) != 2) return 2;
    if (std::strcmp(verb, "load") == 0) load(number);
    if (std::strcmp(verb, "launch") == 0) {
      launch(number);
      ++launches;
    }
    if (std::strcmp(verb, "unload") == 0) CHECK(cuModuleUnload(g_modules[number]));
    std::fputs(line, stdout);
    std::fflush(stdout);
  }
  CHECK(cuCtxSynchronize());
  workload::print_truth("modules", launches, workload::seconds_since(begin), {});
}
