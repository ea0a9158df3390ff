// SPDX-License-Identifier: Apache-2.0
#include <poll.h>
#include <sys/signalfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <thread>

#include "workload.h"

// Blocks every signal, as servers do that read them from a signalfd, and launches from its main loop. SIGTERM
// or SIGINT must reach that descriptor: a thread that somebody else starts with signals unblocked would take
// it and kill the program. Prints the signal that ended it.
int main(int argc, char** argv) {
  const workload::Options options = workload::parse_options(argc, argv);
  sigset_t all{};
  sigfillset(&all);
  sigprocmask(SIG_SETMASK, &all, nullptr);
  workload::Device device;
  std::signal(SIGTERM, SIG_DFL);  // deadly to whoever takes it unblocked
  std::signal(SIGINT, SIG_DFL);
  const int signals = signalfd(-1, &all, SFD_CLOEXEC);
  const int timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC);
  const itimerspec every_ms{{0, 1'000'000}, {0, 1'000'000}};
  timerfd_settime(timer, 0, &every_ms, nullptr);
  CUstream stream = nullptr;
  CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  const double per_ms = options.rate > 0 ? options.rate / 1000 : 10;
  const std::uint64_t begin = workload::now_ns();
  std::uint64_t launches = 0;
  std::uint64_t ticks = 0;
  unsigned taken = 0;
  while (taken == 0 && (options.seconds == 0 || workload::seconds_since(begin) < options.seconds)) {
    pollfd ready[2] = {{signals, POLLIN, 0}, {timer, POLLIN, 0}};
    if (poll(ready, 2, 100) < 0) break;
    signalfd_siginfo info{};
    if ((ready[0].revents & POLLIN) != 0 && read(signals, &info, sizeof info) == sizeof info)
      taken = info.ssi_signo;
    std::uint64_t expired = 0;
    if ((ready[1].revents & POLLIN) != 0 && read(timer, &expired, sizeof expired) == sizeof expired)
      ticks += expired;
    while (static_cast<double>(launches) < per_ms * static_cast<double>(ticks)) {
      CHECK(device.launch(launches++, stream, options.spin_ns));
    }
  }
  const double elapsed = workload::seconds_since(begin);
  CHECK(cuCtxSynchronize());
  workload::print_truth("signalfd_loop", launches, elapsed, device.counts(),
                        ",\"signal\":" + std::to_string(taken));
}
