// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

// What the launch path keeps per thread. Initial-exec TLS, so that an access is one instruction and never
// allocates; small, because it comes out of glibc's static reserve when this library is loaded late.
namespace pillion::shim {

struct ThreadState {
  std::uint32_t tid;            // 0 until the thread's first launch; in this process's PID namespace
  std::uint32_t session;        // the session that has this thread's THREAD record
  std::uint32_t tick;           // the last tick in which this thread was counted as launching
  std::uint32_t random;         // xorshift state, never 0 once tid is set
  std::uint32_t until_sample;   // launches left to the next random snapshot
  std::uint32_t graph_session;  // the session in which graph_slot was claimed
  std::uint8_t graph_slot;
  std::uint8_t captured;  // 1: the call that goes on was captured into a graph: GRAPHNODE_CREATED came in it
  std::uint8_t inside;    // in a handler of ours: a launch from a signal handler is not recorded
  std::uint8_t bounds_searches;     // bounded: see search_bounds()
  std::uint16_t calls;              // handler calls, to time one in many
  std::uint16_t until_sync_sample;  // synchronisation calls left to the next random snapshot
  std::uint64_t stack_low;          // 0, 0: not known
  std::uint64_t stack_high;
};
static_assert(sizeof(ThreadState) == 48);

extern constinit thread_local ThreadState t_thread [[gnu::tls_model("initial-exec")]];

// The calling thread's tid; one system call in the thread's life.
[[nodiscard]] std::uint32_t own_tid();

// At a thread's first launch of a session: tid, seed and, once, stack bounds. A few system calls; keeps
// errno. `sp`: any address in the current frame.
void begin_thread(ThreadState& thread, std::uint64_t sp);

// True when [sp, thread.stack_high) is the calling thread's own stack and so can be read without fear. Looks
// for the bounds again, some few times in a thread's life, when `sp` lies outside: the main stack grows, and
// a thread may have launched from a fiber first.
[[nodiscard]] bool on_own_stack(ThreadState& thread, std::uint64_t sp);

}  // namespace pillion::shim
