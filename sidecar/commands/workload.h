// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <signal.h>
#include <sys/types.h>

#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/result.h"
#include "base/unique_fd.h"

namespace pillion::commands {

// How a process ended.
struct WorkloadEnd {
  bool by_signal = false;
  int number = 0;  // exit status or signal

  [[nodiscard]] bool failed() const { return by_signal || number != 0; }

  [[nodiscard]] std::string text() const;  // "exited with status 3", "was ended by signal 9 (KILL)"
};

// A program that `record` started. Watched by a thread of its own; never killed by us, also not at the end.
class Workload {
 public:
  // Starts `command` (found through PATH) with this environment added and this signal mask. `ended` is called
  // on the watching thread. Not movable: the thread uses it.
  [[nodiscard]] static Result<std::unique_ptr<Workload>> start(
      const std::vector<std::string>& command,
      const std::vector<std::pair<std::string, std::string>>& environment, const sigset_t& mask,
      std::function<void()> ended);
  ~Workload();

  [[nodiscard]] pid_t pid() const { return pid_; }

  // Unset while it runs. Thread-safe.
  [[nodiscard]] std::optional<WorkloadEnd> end() const;

  // Blocks until it has ended (true), or until `stop` or `limit` (false).
  [[nodiscard]] bool wait(std::stop_token stop) const;
  [[nodiscard]] bool wait_for(std::chrono::milliseconds limit) const;

  void send(int signal) const;

 private:
  Workload(pid_t pid, std::function<void()> ended) : pid_(pid), ended_(std::move(ended)) {}
  void watch();

  const pid_t pid_;
  const std::function<void()> ended_;
  UniqueFd process_;  // pidfd: never another process, even when the pid is used again
  UniqueFd leave_;    // eventfd: ends the thread
  mutable std::mutex mutex_;
  mutable std::condition_variable_any changed_;
  std::optional<WorkloadEnd> end_;  // under mutex_
  std::thread thread_;
};

}  // namespace pillion::commands
