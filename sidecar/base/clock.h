// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <time.h>

#include <cstdint>

namespace pillion {

// CLOCK_MONOTONIC in nanoseconds: the clock of the wire. An interface so that tests can move time by hand.
class Clock {
 public:
  virtual ~Clock() = default;
  [[nodiscard]] virtual std::uint64_t now_ns() const = 0;
};

[[nodiscard]] inline std::uint64_t monotonic_ns() {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000u + static_cast<std::uint64_t>(now.tv_nsec);
}

class MonotonicClock final : public Clock {
 public:
  [[nodiscard]] std::uint64_t now_ns() const override { return monotonic_ns(); }
};

// For tests. Not thread-safe.
class FakeClock final : public Clock {
 public:
  explicit FakeClock(std::uint64_t start_ns) : now_ns_(start_ns) {}
  [[nodiscard]] std::uint64_t now_ns() const override { return now_ns_; }
  void advance(std::uint64_t ns) { now_ns_ += ns; }

 private:
  std::uint64_t now_ns_;
};

}  // namespace pillion
