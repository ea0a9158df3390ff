// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <stop_token>
#include <thread>

#include <signal.h>

#include "base/unique_fd.h"

namespace pillion::commands {

// Takes SIGINT, SIGTERM and SIGHUP on a thread of its own, through a signalfd, and ignores SIGPIPE and
// SIGXFSZ. Made on the main thread before any other: threads started later inherit the blocked mask, so no
// code of ours ever runs in a signal handler. The previous mask comes back at the end.
class StopSignals {
 public:
  // Called on the signal thread for every signal after the first, which only requests the stop.
  // `from_terminal`: Ctrl-C, which the whole foreground process group got.
  using Further = std::function<void(int signal, bool from_terminal)>;

  explicit StopSignals(Further further);
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  // Requested by the first signal.
  [[nodiscard]] std::stop_token token() const { return stop_.get_token(); }

  // The first signal; 0 before it. Read it only after the stop was requested.
  [[nodiscard]] int first() const { return first_; }
  [[nodiscard]] bool first_from_terminal() const { return first_from_terminal_; }

  // The mask that was in force before: for programs that we start.
  [[nodiscard]] const sigset_t& previous_mask() const { return previous_; }

 private:
  void run();

  const Further further_;
  sigset_t previous_{};
  UniqueFd signals_;
  UniqueFd end_;
  std::stop_source stop_;
  int first_ = 0;  // written by the thread before it requests the stop
  bool first_from_terminal_ = false;
  std::thread thread_;
};

// Blocks until the stop is requested.
void wait_for_stop(std::stop_token token);

}  // namespace pillion::commands
