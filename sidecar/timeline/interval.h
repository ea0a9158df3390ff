// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "records.h"

namespace pillion::timeline {

// An execution on a device. CLOCK_MONOTONIC nanoseconds, start <= end.
struct Interval {
  std::uint64_t start_ns = 0;
  std::uint64_t end_ns = 0;
  std::uint64_t launched_ns = 0;  // 0: not known
  std::uint32_t who = 0;          // see LaunchTable
  ExecutionKind kind = ExecutionKind::kernel;

  // A copy does not keep a device from being idle: it is why the device was.
  [[nodiscard]] bool works() const { return kind != ExecutionKind::copy; }
};

// The order of a sweep. Of those that start together, the one that was launched first ends the gap.
[[nodiscard]] inline bool before(const Interval& a, const Interval& b) {
  if (a.start_ns != b.start_ns) return a.start_ns < b.start_ns;
  if (a.launched_ns != b.launched_ns) return a.launched_ns < b.launched_ns;
  if (a.who != b.who) return a.who < b.who;
  return a.end_ns < b.end_ns;
}

}  // namespace pillion::timeline
