// SPDX-License-Identifier: Apache-2.0
#include "base/clock_watch.h"

#include <time.h>

#include "base/clock.h"

namespace pillion {
namespace {

// A thread that is held up between the two readings must not see a step that is not there.
constexpr std::uint64_t kReadWithinNs = 20'000'000;
constexpr int kTries = 5;

std::optional<std::int64_t> real_minus_monotonic() {
  for (int i = 0; i < kTries; ++i) {
    const std::uint64_t before = monotonic_ns();
    timespec real{};
    ::clock_gettime(CLOCK_REALTIME, &real);
    const std::uint64_t after = monotonic_ns();
    if (after - before > kReadWithinNs) continue;
    return std::int64_t{real.tv_sec} * 1'000'000'000 + real.tv_nsec -
           static_cast<std::int64_t>(before + (after - before) / 2);
  }
  return std::nullopt;
}

}  // namespace

ClockWatch::ClockWatch() : ClockWatch(real_minus_monotonic) {}

std::uint64_t ClockWatch::look() {
  const std::lock_guard lock(mutex_);
  const auto now = difference_();
  if (!now) return steps_;
  if (last_) {
    const std::int64_t moved = *now - *last_;
    if (moved >= kStepNs || moved <= -kStepNs) ++steps_;
  }
  last_ = now;
  return steps_;
}

}  // namespace pillion
