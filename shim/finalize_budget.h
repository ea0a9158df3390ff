// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace pillion::shim {

// How often CUPTI may be finalised in one process: each time some 0.6 MiB of device memory and 0.3 MiB of the
// program's stay behind (H200, CUDA 13.0: tests/gpu/arming_facts.cpp, growth_finalized; without a finalize
// nothing does, growth_disabled). Who is profiled every minute would lose a GiB of both in two days. But
// without a finalize launches stay slower, a PyTorch training step by 12 % (tests/gpu/attach_bare.py). One
// owner, the capture thread; `now_ns` is CLOCK_MONOTONIC.
class FinalizeBudget {
 public:
  static constexpr std::uint32_t kAtOnce = 32;
  static constexpr std::uint64_t kOneEachNs = 1'200'000'000'000;  // above that: 45 MiB a day

  // True when there is one left; it is spent then.
  [[nodiscard]] bool take(std::uint64_t now_ns);
  // The one that was taken has not come about.
  void give_back() {
    if (left_ < kAtOnce) ++left_;
  }

 private:
  std::uint32_t left_ = kAtOnce;
  std::uint64_t counted_ns_ = 0;  // until when earnings are counted
};

}  // namespace pillion::shim
