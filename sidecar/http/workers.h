// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "http/connections.h"

namespace pillion::http {

// A fixed number of threads that serve requests. The queue holds at most one entry for each connection, so
// ConnectionLimits::connections bounds it.
class Workers {
 public:
  Workers(std::size_t count, std::function<void(Connection&)> serve);
  ~Workers();

  void submit(Connection& connection);  // never blocks

  // Serves what is queued, then ends the threads.
  void stop();

 private:
  void run();

  const std::function<void(Connection&)> serve_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Connection*> queue_;  // under mutex_
  bool stopping_ = false;          // under mutex_
  std::vector<std::thread> threads_;
};

}  // namespace pillion::http
