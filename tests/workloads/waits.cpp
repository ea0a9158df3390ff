// SPDX-License-Identifier: Apache-2.0
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>

#include "workload.h"

// Waits for the GPU in every way there is, when told to. A line on stdin is a command and how often:
// `stream`, `thread_stream`, `context`, `this_context`, `event`, `to_host`, `to_device` put a kernel of
// --spin-ns on a stream and wait for it in that way, each in a function of that name; `flood` synchronises a
// stream that is idle, a kernel before each; `blocked` puts a kernel behind one of --spin-ns; `failed`
// launches what cannot be launched; `signal` waits for a stream while a signal handler launches; `begin N`
// starts a thread that waits N ms in a stream synchronisation, `end` waits for it. Answers with the
// nanoseconds that the calls took by its own clock. Says "ready" first, and prints the truth at the end of
// its input.
namespace {

struct Steps {
  const workload::Options& options;
  workload::Device& device;
  CUstream stream = nullptr;
  CUstream other = nullptr;
  CUevent event = nullptr;
  std::uint64_t launches = 0;
  std::thread waiter{};

  void spin(CUstream on, std::uint64_t ns) {
    CHECK(device.launch(0, on, ns));
    ++launches;
  }
  void kernel(CUstream on) { CHECK(device.launch(launches++, on, 0)); }
};

Steps* g_steps = nullptr;

using Wait = void (*)(Steps&);

[[gnu::noinline]] void wait_stream(Steps& s) { CHECK(cuStreamSynchronize(s.stream)); }
[[gnu::noinline]] void wait_thread_stream(Steps& s) { CHECK(cuStreamSynchronize_ptsz(s.stream)); }
[[gnu::noinline]] void wait_context(Steps&) { CHECK(cuCtxSynchronize()); }
[[gnu::noinline]] void wait_this_context(Steps& s) { CHECK(cuCtxSynchronize_v2(s.device.context())); }
[[gnu::noinline]] void wait_event(Steps& s) { CHECK(cuEventSynchronize(s.event)); }
[[gnu::noinline]] void wait_to_host(Steps& s) {
  float value[64];
  CHECK(cuMemcpyDtoH_v2(value, s.device.x(), sizeof value));
}
[[gnu::noinline]] void wait_to_device(Steps& s) {
  const float value[64] = {};
  CHECK(cuMemcpyHtoD_v2(s.device.x(), value, sizeof value));
}

struct Way {
  const char* name;
  Wait wait;
  bool default_stream;  // the copies' stream
};
constexpr Way kWays[] = {
    {"stream", wait_stream, false},      {"thread_stream", wait_thread_stream, false},
    {"context", wait_context, false},    {"this_context", wait_this_context, false},
    {"event", wait_event, false},        {"to_host", wait_to_host, true},
    {"to_device", wait_to_device, true},
};

std::uint64_t timed(Steps& steps, Wait wait) {
  const std::uint64_t begin = workload::now_ns();
  wait(steps);
  return workload::now_ns() - begin;
}

std::uint64_t run_way(Steps& steps, const Way& way, std::uint64_t count) {
  std::uint64_t ns = 0;
  for (; count > 0; --count) {
    steps.spin(way.default_stream ? nullptr : steps.stream, steps.options.spin_ns);
    CHECK(cuEventRecord(steps.event, steps.stream));
    ns += timed(steps, way.wait);
  }
  return ns;
}

std::uint64_t flood(Steps& steps, std::uint64_t count) {
  const std::uint64_t begin = workload::now_ns();
  for (; count > 0; --count) {
    if (count % 16 == 0) steps.kernel(steps.other);
    CHECK(cuStreamSynchronize(steps.stream));
  }
  return workload::now_ns() - begin;
}

std::uint64_t blocked(Steps& steps, std::uint64_t count) {
  for (; count > 0; --count) {
    steps.spin(steps.stream, steps.options.spin_ns);
    steps.kernel(steps.stream);
    CHECK(cuStreamSynchronize(steps.stream));
  }
  return 0;
}

std::uint64_t failed(Steps& steps, std::uint64_t count) {
  for (; count > 0; --count)
    (void)cuLaunchKernel(steps.device.axpy(), 0, 1, 1, 1, 1, 1, 0, steps.stream, nullptr, nullptr);
  return 0;
}

// On top of a stream synchronisation.
void launch_in_handler(int) { g_steps->kernel(g_steps->other); }

std::uint64_t with_signals(Steps& steps, std::uint64_t count) {
  std::signal(SIGUSR1, launch_in_handler);
  std::uint64_t ns = 0;
  const pthread_t self = pthread_self();
  for (; count > 0; --count) {
    steps.spin(steps.stream, steps.options.spin_ns);
    std::thread sender([&] {
      workload::sleep_seconds(1e-9 * static_cast<double>(steps.options.spin_ns) / 2);
      pthread_kill(self, SIGUSR1);
    });
    ns += timed(steps, wait_stream);
    sender.join();
  }
  return ns;
}

std::uint64_t begin(Steps& steps, std::uint64_t milliseconds) {
  steps.spin(steps.other, milliseconds * 1'000'000);
  steps.waiter = std::thread([&steps] {
    steps.device.make_current();
    CHECK(cuStreamSynchronize(steps.other));
  });
  return 0;
}

std::uint64_t end(Steps& steps, std::uint64_t) {
  steps.waiter.join();
  return 0;
}

struct Command {
  const char* name;
  std::uint64_t (*run)(Steps&, std::uint64_t);
};
constexpr Command kCommands[] = {{"flood", flood},         {"blocked", blocked}, {"failed", failed},
                                 {"signal", with_signals}, {"begin", begin},     {"end", end}};

std::uint64_t obey(Steps& steps, const char* name, std::uint64_t count) {
  for (const Way& way : kWays) {
    if (std::strcmp(way.name, name) == 0) return run_way(steps, way, count);
  }
  for (const Command& command : kCommands) {
    if (std::strcmp(command.name, name) == 0) return command.run(steps, count);
  }
  std::fprintf(stderr, "waits: what is '%s'\n", name);
  std::exit(2);
}

}  // namespace

int main(int argc, char** argv) {
  const workload::Options options = workload::parse_options(argc, argv);
  workload::Device device;
  Steps steps{options, device};
  g_steps = &steps;
  CHECK(cuStreamCreate(&steps.stream, CU_STREAM_NON_BLOCKING));
  CHECK(cuStreamCreate(&steps.other, CU_STREAM_NON_BLOCKING));
  CHECK(cuEventCreate(&steps.event, 0));
  const std::uint64_t started = workload::now_ns();
  std::puts("ready");
  std::fflush(stdout);
  char line[64];
  char name[32];
  unsigned long long count = 0;
  while (!workload::stop_requested() && std::fgets(line, sizeof line, stdin) != nullptr) {
    count = 1;
    if (std::sscanf(line, "%31s %llu", name, &count) < 1) break;
    std::printf("%llu\n", static_cast<unsigned long long>(obey(steps, name, count)));
    std::fflush(stdout);
  }
  const double elapsed = workload::seconds_since(started);
  CHECK(cuCtxSynchronize());
  workload::print_truth("waits", steps.launches, elapsed, device.counts());
}
