// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "base/shared_rings.h"

namespace pillion::collect {

// Reads the shim's counters: relaxed loads, at any time, also after the workload has died. A value that
// cannot be (a total that shrinks, a number past 2^60) is replaced by the last good one and counted.
class ShimCounters {
 public:
  explicit ShimCounters(const pillion_counters* shared) : shared_(shared) {}

  const pillion_counters& read();
  // Reads once more, and from then on no shared memory.
  void release() {
    (void)read();
    shared_ = nullptr;
  }
  [[nodiscard]] const pillion_counters& last() const { return last_; }
  [[nodiscard]] std::uint64_t implausible() const { return implausible_; }

 private:
  const pillion_counters* shared_;
  pillion_counters last_{};
  std::uint64_t implausible_ = 0;
};

}  // namespace pillion::collect
