// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>

namespace pillion {

// Counts steps of CLOCK_REALTIME against CLOCK_MONOTONIC: somebody set the time. What NTP slews (half a
// millisecond a second) is none, provided that somebody looks every few seconds. Thread-safe.
class ClockWatch {
 public:
  // Their difference in nanoseconds; nothing when it could not be read closely enough.
  using Difference = std::function<std::optional<std::int64_t>()>;

  ClockWatch();  // of this machine
  explicit ClockWatch(Difference difference) : difference_(std::move(difference)), last_(difference_()) {}

  // Looks, and returns the number of steps of kStepNs or more that any look() has seen.
  std::uint64_t look();

  static constexpr std::int64_t kStepNs = 100'000'000;

 private:
  const Difference difference_;
  std::mutex mutex_;
  std::optional<std::int64_t> last_;
  std::uint64_t steps_ = 0;
};

}  // namespace pillion
