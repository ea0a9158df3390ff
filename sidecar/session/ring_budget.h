// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>

#include "base/result.h"

namespace pillion::session {

// How much shared memory all sessions of the sidecar may hold, and how many may hold some (-ring-budget,
// -max-sessions). Thread-safe: rings may be dropped on the thread that drained them last.
class RingBudget : public std::enable_shared_from_this<RingBudget> {
 public:
  static constexpr std::uint64_t kBytesDefault = 512ull << 20;
  static constexpr std::size_t kSessionsDefault = 64;

  // Gives its share back when it goes.
  class Share {
   public:
    Share(std::shared_ptr<RingBudget> budget, std::uint64_t bytes)
        : budget_(std::move(budget)), bytes_(bytes) {}
    Share(Share&&) noexcept = default;
    Share& operator=(Share&&) = delete;
    ~Share() {
      if (budget_) budget_->give_back(bytes_);
    }

   private:
    std::shared_ptr<RingBudget> budget_;
    std::uint64_t bytes_;
  };

  explicit RingBudget(std::uint64_t bytes_max = kBytesDefault, std::size_t sessions_max = kSessionsDefault)
      : bytes_max_(bytes_max), sessions_max_(sessions_max) {}

  // The budget must be owned by a shared_ptr. An error names the limit and what is in use.
  [[nodiscard]] Result<Share> take(std::uint64_t bytes) {
    const std::lock_guard lock(mutex_);
    if (sessions_ >= sessions_max_) {
      ++refused_;
      return fail("arm", "", std::to_string(sessions_) + " processes are profiled already (-max-sessions)");
    }
    if (bytes > bytes_max_ - bytes_) {
      ++refused_;
      return fail("arm", "",
                  "rings of " + std::to_string(bytes >> 10) +
                      " KiB do not fit: " + std::to_string(bytes_ >> 10) + " of " +
                      std::to_string(bytes_max_ >> 10) + " KiB in use (-ring-budget)");
    }
    ++sessions_;
    bytes_ += bytes;
    return Share(shared_from_this(), bytes);
  }

  [[nodiscard]] std::uint64_t bytes() const {
    const std::lock_guard lock(mutex_);
    return bytes_;
  }
  [[nodiscard]] std::size_t sessions() const {
    const std::lock_guard lock(mutex_);
    return sessions_;
  }
  [[nodiscard]] std::uint64_t refused() const {
    const std::lock_guard lock(mutex_);
    return refused_;
  }

 private:
  void give_back(std::uint64_t bytes) {
    const std::lock_guard lock(mutex_);
    --sessions_;
    bytes_ -= bytes;
  }

  const std::uint64_t bytes_max_;
  const std::size_t sessions_max_;
  mutable std::mutex mutex_;
  std::uint64_t bytes_ = 0;
  std::size_t sessions_ = 0;
  std::uint64_t refused_ = 0;
};

}  // namespace pillion::session
