// SPDX-License-Identifier: Apache-2.0
#include <csignal>

#include "workload.h"

#ifdef __SANITIZE_THREAD__
// A launch allocates now and then; here no allocation can have been interrupted.
extern "C" const char* __tsan_default_options() { return "report_signal_unsafe=0"; }
#endif

// Launches from a signal handler that runs on an alternative stack, in turn with launches from the thread's
// stack. The signal is raised synchronously, outside any driver call, so that no lock of the driver is held.
namespace {

workload::Device* g_device;
CUstream g_stream;
std::uint64_t g_launches;

void launch_in_handler(int) {
  CHECK(g_device->launch(1, g_stream));
  ++g_launches;
}

}  // namespace

int main(int argc, char** argv) {
  const workload::Options options = workload::parse_options(argc, argv);
  workload::Device device;
  g_device = &device;
  CHECK(cuStreamCreate(&g_stream, CU_STREAM_NON_BLOCKING));
  std::vector<char> memory(256 * 1024);
  stack_t stack{};
  stack.ss_sp = memory.data();
  stack.ss_size = memory.size();
  sigaltstack(&stack, nullptr);
  struct sigaction action {};
  action.sa_handler = launch_in_handler;
  action.sa_flags = SA_ONSTACK;
  sigaction(SIGUSR2, &action, nullptr);
  const std::uint64_t begin = workload::now_ns();
  std::uint64_t own = 0;
  workload::Pacer pacer(options.rate, options.seconds);
  while ((options.iterations == 0 || pacer.passed() < options.iterations) && pacer.next()) {
    if (pacer.passed() % 2 == 0) {
      std::raise(SIGUSR2);
    } else {
      CHECK(device.launch(0, g_stream));
      ++own;
    }
  }
  const double elapsed = workload::seconds_since(begin);
  CHECK(cuCtxSynchronize());
  workload::print_truth("signal_stack", own + g_launches, elapsed, device.counts(),
                        ",\"own\":" + std::to_string(own) + ",\"handler\":" + std::to_string(g_launches));
}
