// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <future>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <utility>

#include "base/event_loop.h"

namespace pillion::pipeline {

// Runs `question` on the loop's thread and waits for its answer. Nothing when the loop has ended or does not
// answer in time: `question` may then still run later, so it owns what it uses. Never called on the loop's
// own thread.
template <typename Question, typename Answer = std::invoke_result_t<Question>>
[[nodiscard]] std::optional<Answer> ask(EventLoop& loop, Question question,
                                        std::chrono::milliseconds deadline = std::chrono::seconds(5)) {
  auto promise = std::make_shared<std::promise<Answer>>();
  auto answer = promise->get_future();
  const bool posted =
      loop.post([promise, question = std::move(question)]() mutable { promise->set_value(question()); });
  if (!posted || answer.wait_for(deadline) != std::future_status::ready) return std::nullopt;
  try {
    return answer.get();
  } catch (const std::future_error&) {  // the loop dropped the task when it ended
    return std::nullopt;
  }
}

// Rung when something that a waiting request may care about has changed. Thread-safe.
class Bell {
 public:
  void ring() {
    {
      const std::lock_guard lock(mutex_);
      ++rings_;
    }
    changed_.notify_all();
  }

  [[nodiscard]] std::uint64_t rings() const {
    const std::lock_guard lock(mutex_);
    return rings_;
  }

  // Until it rings after `heard`, the time comes, or `stop`.
  void wait_until(std::uint64_t heard, std::chrono::steady_clock::time_point deadline,
                  const std::stop_token& stop) {
    std::unique_lock lock(mutex_);
    (void)changed_.wait_until(lock, stop, deadline, [this, heard] { return rings_ != heard; });
  }

 private:
  mutable std::mutex mutex_;
  std::condition_variable_any changed_;
  std::uint64_t rings_ = 0;
};

}  // namespace pillion::pipeline
