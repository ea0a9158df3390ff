// SPDX-License-Identifier: Apache-2.0
#include "commands/stop_signals.h"

#include <poll.h>
#include <pthread.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>

#include <semaphore>
#include <string>

#include "base/log.h"

namespace pillion::commands {

StopSignals::StopSignals(Further further) : further_(std::move(further)) {
  ::signal(SIGPIPE, SIG_IGN);
  ::signal(SIGXFSZ, SIG_IGN);  // a file past its limit is an error to report, no reason to die
  sigset_t taken;
  ::sigemptyset(&taken);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) ::sigaddset(&taken, signal);
  ::pthread_sigmask(SIG_BLOCK, &taken, &previous_);
  signals_.reset(::signalfd(-1, &taken, SFD_CLOEXEC | SFD_NONBLOCK));
  end_.reset(::eventfd(0, EFD_CLOEXEC));
  if (!signals_.valid() || !end_.valid()) log(LogLevel::error, "signals cannot be taken: no file descriptor");
  thread_ = std::thread([this] { run(); });
}

StopSignals::~StopSignals() {
  ::eventfd_write(end_.get(), 1);
  thread_.join();
  ::pthread_sigmask(SIG_SETMASK, &previous_, nullptr);
}

void StopSignals::run() {
  while (true) {
    pollfd waited[] = {{end_.get(), POLLIN, 0}, {signals_.get(), POLLIN, 0}};
    if (::poll(waited, 2, -1) < 0 && errno != EINTR) return;
    if (waited[0].revents != 0) return;
    signalfd_siginfo info{};
    if (::read(signals_.get(), &info, sizeof info) != sizeof info) continue;
    const int signal = static_cast<int>(info.ssi_signo);
    const bool from_terminal = info.ssi_code == SI_KERNEL;
    if (first_ == 0) {
      log(LogLevel::info, std::string("SIG") + ::sigabbrev_np(signal) + ": ending");
      first_ = signal;
      first_from_terminal_ = from_terminal;
      stop_.request_stop();
    } else {
      further_(signal, from_terminal);
    }
  }
}

void wait_for_stop(std::stop_token token) {
  std::binary_semaphore requested(0);
  const std::stop_callback wake(std::move(token), [&requested] { requested.release(); });
  requested.acquire();
}

}  // namespace pillion::commands
