// SPDX-License-Identifier: Apache-2.0
#include "flush_policy.h"

namespace pillion::shim {

void FlushPolicy::begin(std::uint64_t now_ns) {
  records_ = 0;
  looked_ns_ = now_ns;
  calm_.store(true, std::memory_order_relaxed);
}

bool FlushPolicy::look(std::uint64_t records, std::uint64_t now_ns) {
  const std::uint64_t elapsed_ns = now_ns - looked_ns_;
  if (elapsed_ns < kLookNs) return false;
  const std::uint64_t came = records - records_;
  records_ = records;
  looked_ns_ = now_ns;
  // A minute at most: the product stays far from overflow.
  constexpr std::uint64_t kLongestNs = 60'000'000'000;
  const std::uint64_t within_ns = elapsed_ns < kLongestNs ? elapsed_ns : kLongestNs;
  calm_.store(came <= kCalmRecordsPerSecond * within_ns / 1'000'000'000, std::memory_order_relaxed);
  return true;
}

}  // namespace pillion::shim
