// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace pillion {

// A call in which a thread of a program waited for its GPU (cuStreamSynchronize and the like, blocking
// copies), from entry to return. CLOCK_MONOTONIC nanoseconds.
struct HostSync {
  std::uint32_t tid = 0;
  std::uint64_t start_ns = 0;
  std::uint64_t end_ns = 0;
};

}  // namespace pillion
