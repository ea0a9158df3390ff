// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <mutex>
#include <optional>
#include <utility>

namespace pillion {

// Hands values from any number of threads to any number of threads. Bounded in items and in weight (bytes,
// say), so that a slow consumer costs counted refusals and never memory. A producer never waits for a
// consumer: it holds the lock for a push and no longer.
template <typename T>
class BoundedQueue {
 public:
  BoundedQueue(std::size_t items_max, std::size_t weight_max)
      : items_max_(items_max), weight_max_(weight_max) {}
  explicit BoundedQueue(std::size_t items_max) : BoundedQueue(items_max, items_max) {}

  // False when full or closed: counted, and `value` is left as it was.
  [[nodiscard]] bool try_push(T&& value, std::size_t weight = 1) {
    {
      const std::lock_guard lock(mutex_);
      if (closed_ || items_.size() >= items_max_ || weight > weight_max_ - weight_) {
        ++refused_;
        return false;
      }
      items_.emplace_back(std::move(value), weight);
      weight_ += weight;
    }
    ready_.notify_one();
    return true;
  }

  // Waits for a value; nothing once the queue is closed and empty.
  [[nodiscard]] std::optional<T> pop() {
    std::unique_lock lock(mutex_);
    ready_.wait(lock, [this] { return closed_ || !items_.empty(); });
    return take();
  }

  [[nodiscard]] std::optional<T> try_pop() {
    const std::lock_guard lock(mutex_);
    return take();
  }

  // Wakes every waiting consumer. What is queued can still be popped, nothing new comes in.
  void close() {
    {
      const std::lock_guard lock(mutex_);
      closed_ = true;
    }
    ready_.notify_all();
  }

  // As close(), and drops what is queued.
  void abandon() {
    {
      const std::lock_guard lock(mutex_);
      closed_ = true;
      items_.clear();
      weight_ = 0;
    }
    ready_.notify_all();
  }

  [[nodiscard]] std::size_t size() const {
    const std::lock_guard lock(mutex_);
    return items_.size();
  }
  [[nodiscard]] std::size_t weight() const {
    const std::lock_guard lock(mutex_);
    return weight_;
  }
  [[nodiscard]] std::uint64_t refused() const {
    const std::lock_guard lock(mutex_);
    return refused_;
  }

 private:
  std::optional<T> take() {
    if (items_.empty()) return std::nullopt;
    std::optional<T> value(std::move(items_.front().first));
    weight_ -= items_.front().second;
    items_.pop_front();
    return value;
  }

  const std::size_t items_max_;
  const std::size_t weight_max_;
  mutable std::mutex mutex_;
  std::condition_variable ready_;
  std::deque<std::pair<T, std::size_t>> items_;
  std::size_t weight_ = 0;
  std::uint64_t refused_ = 0;
  bool closed_ = false;
};

}  // namespace pillion
