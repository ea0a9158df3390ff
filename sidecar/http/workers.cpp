// SPDX-License-Identifier: Apache-2.0
#include "http/workers.h"

namespace pillion::http {

Workers::Workers(std::size_t count, std::function<void(Connection&)> serve) : serve_(std::move(serve)) {
  threads_.reserve(count);
  for (std::size_t i = 0; i < count; ++i) threads_.emplace_back([this] { run(); });
}

Workers::~Workers() { stop(); }

void Workers::submit(Connection& connection) {
  {
    const std::lock_guard lock(mutex_);
    queue_.push_back(&connection);
  }
  changed_.notify_one();
}

void Workers::stop() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  for (auto& thread : threads_) thread.join();
  threads_.clear();
}

void Workers::run() {
  while (true) {
    Connection* connection = nullptr;
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [this] { return stopping_ || !queue_.empty(); });
      if (queue_.empty()) return;
      connection = queue_.front();
      queue_.pop_front();
    }
    serve_(*connection);
  }
}

}  // namespace pillion::http
