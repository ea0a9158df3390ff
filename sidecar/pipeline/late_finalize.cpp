// SPDX-License-Identifier: Apache-2.0
#include "pipeline/late_finalize.h"

#include <time.h>

#include <algorithm>

#include "abi/pillion_abi.h"

namespace pillion::pipeline {

void LateFinalize::detached(std::uint32_t residue, bool asked, std::uint64_t now_ns) {
  at_ns_ = looked_ns_ = 0;
  if (!asked) return;
  switch (residue) {
    case PILLION_RESIDUE_FINALIZED:
      wait_ns_ = kFirstWaitNs;
      return;
    case PILLION_RESIDUE_NO_API_CALL:  // it was idle
      at_ns_ = now_ns + wait_ns_;
      wait_ns_ = std::min(2 * wait_ns_, kLongestWaitNs);
      return;
    case PILLION_RESIDUE_FINALIZED_OFTEN:
      at_ns_ = now_ns + kLongestWaitNs;
      return;
    default:  // it would be refused again
      return;
  }
}

bool LateFinalize::due(std::uint64_t now_ns, const std::function<std::uint64_t()>& processor_ns) {
  if (at_ns_ == 0 || now_ns < at_ns_) return false;
  if (looked_ns_ != 0 && now_ns - looked_ns_ < kLookNs) return false;
  const std::uint64_t used = processor_ns();
  const bool works = looked_ns_ != 0 && used >= used_ns_ + kWorksNs;
  looked_ns_ = now_ns;
  used_ns_ = used;
  return works;
}

std::uint64_t processor_ns(std::uint32_t pid) {
  clockid_t clock{};
  timespec used{};
  if (::clock_getcpuclockid(static_cast<pid_t>(pid), &clock) != 0 || ::clock_gettime(clock, &used) != 0)
    return 0;
  return static_cast<std::uint64_t>(used.tv_sec) * 1'000'000'000 + static_cast<std::uint64_t>(used.tv_nsec);
}

}  // namespace pillion::pipeline
