// SPDX-License-Identifier: Apache-2.0
#include "thread_state.h"

#include <cerrno>

#include "stack_bounds.h"
#include "system_calls.h"

namespace pillion::shim {
namespace {

// Enough for a main stack that grows to 8 MiB in steps and for some fibers; then every look costs a system
// call for nothing, and the fault-safe copy does as well.
constexpr std::uint8_t kBoundsSearchesMax = 32;

void search_bounds(ThreadState& thread, std::uint64_t sp) {
  ++thread.bounds_searches;
  const int saved_errno = errno;
  StackBounds bounds{};
  const bool found = find_stack_bounds(sp, thread.tid == this_pid(), &bounds);
  errno = saved_errno;
  if (!found) return;
  thread.stack_low = bounds.low;
  thread.stack_high = bounds.high;
}

}  // namespace

constinit thread_local ThreadState t_thread [[gnu::tls_model("initial-exec")]] = {};

std::uint32_t own_tid() {
  ThreadState& thread = t_thread;
  if (thread.tid == 0) {
    const int saved_errno = errno;
    thread.tid = this_tid();
    thread.random = (thread.tid * 0x9e37'79b1u ^ static_cast<std::uint32_t>(monotonic_ns())) | 1u;
    errno = saved_errno;
  }
  return thread.tid;
}

void begin_thread(ThreadState& thread, std::uint64_t sp) {
  (void)own_tid();
  if (thread.bounds_searches == 0) search_bounds(thread, sp);
}

bool on_own_stack(ThreadState& thread, std::uint64_t sp) {
  if (sp >= thread.stack_low && sp < thread.stack_high) return true;
  if (thread.bounds_searches >= kBoundsSearchesMax) return false;
  search_bounds(thread, sp);
  return sp >= thread.stack_low && sp < thread.stack_high;
}

}  // namespace pillion::shim
