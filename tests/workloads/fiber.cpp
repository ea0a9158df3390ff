// SPDX-License-Identifier: Apache-2.0
#include <ucontext.h>

#include "workload.h"

// Launches from a coroutine (ucontext) on a stack of its own from malloc, in turn with launches from the
// thread's stack.
namespace {

ucontext_t g_main, g_fiber;
workload::Device* g_device;
CUstream g_stream;
std::uint64_t g_launches;

__attribute__((noinline)) void launch_on_fiber() {
  CHECK(g_device->launch(1, g_stream));
  ++g_launches;
}

void fiber_main() {
  for (;;) {
    launch_on_fiber();
    swapcontext(&g_fiber, &g_main);
  }
}

}  // namespace

int main(int argc, char** argv) {
  const workload::Options options = workload::parse_options(argc, argv);
  workload::Device device;
  g_device = &device;
  CHECK(cuStreamCreate(&g_stream, CU_STREAM_NON_BLOCKING));
  std::vector<char> stack(256 * 1024);
  getcontext(&g_fiber);
  g_fiber.uc_stack.ss_sp = stack.data();
  g_fiber.uc_stack.ss_size = stack.size();
  g_fiber.uc_link = &g_main;
  makecontext(&g_fiber, fiber_main, 0);
  const std::uint64_t begin = workload::now_ns();
  std::uint64_t own = 0;
  workload::Pacer pacer(options.rate, options.seconds);
  while ((options.iterations == 0 || pacer.passed() < options.iterations) && pacer.next()) {
    if (pacer.passed() % 2 == 0) {
      swapcontext(&g_main, &g_fiber);
    } else {
      CHECK(device.launch(0, g_stream));
      ++own;
    }
  }
  const double elapsed = workload::seconds_since(begin);
  CHECK(cuCtxSynchronize());
  workload::print_truth("fiber", own + g_launches, elapsed, device.counts(),
                        ",\"own\":" + std::to_string(own) + ",\"fiber\":" + std::to_string(g_launches));
}
