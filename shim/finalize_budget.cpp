// SPDX-License-Identifier: Apache-2.0
#include "finalize_budget.h"

namespace pillion::shim {

bool FinalizeBudget::take(std::uint64_t now_ns) {
  if (left_ >= kAtOnce) {
    counted_ns_ = now_ns;
  } else {
    const std::uint64_t earned = (now_ns - counted_ns_) / kOneEachNs;
    counted_ns_ += earned * kOneEachNs;
    left_ = earned < kAtOnce - left_ ? left_ + static_cast<std::uint32_t>(earned) : kAtOnce;
  }
  if (left_ == 0) return false;
  --left_;
  return true;
}

}  // namespace pillion::shim
