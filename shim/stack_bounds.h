// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace pillion::shim {

struct StackBounds {
  std::uint64_t low;  // of the mapping now; the main stack's may sink later
  std::uint64_t high;
};

// The stack that `sp` lies on, when it is the calling thread's own one: the main thread's [stack], or the
// mapping that glibc put the thread's control block at the top of. Anything else (fiber, coroutine, signal
// stack) may be unmapped by somebody else at any time: false. The mapping's own end is not enough, because
// the kernel merges neighbours. A few system calls.
[[nodiscard]] bool find_stack_bounds(std::uint64_t sp, bool main_thread, StackBounds* out);

}  // namespace pillion::shim
