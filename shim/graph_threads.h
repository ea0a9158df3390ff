// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>

#include "thread_state.h"

// Which threads launch CUDA graphs: it decides where CUPTI may be finalised without killing the program.
namespace pillion::shim {

inline constexpr std::uint32_t kGraphThreadsMax = 64;  // fits ThreadState::graph_slot

struct GraphThread {
  std::atomic<std::uint32_t> tid;
  std::atomic<std::uint64_t> last_ns;  // CLOCK_MONOTONIC of its last graph launch
};

extern GraphThread g_graph_threads[kGraphThreadsMax];
extern std::atomic<std::uint32_t>
    g_graph_thread_count;  // may pass the maximum: then there are too many to tell

// Launch path.
inline void note_graph_launch(ThreadState& thread, std::uint32_t session, std::uint64_t now_ns) {
  if (thread.graph_session != session) [[unlikely]] {
    thread.graph_session = session;
    const std::uint32_t slot = g_graph_thread_count.fetch_add(1, std::memory_order_relaxed);
    thread.graph_slot = static_cast<std::uint8_t>(slot < kGraphThreadsMax ? slot : kGraphThreadsMax);
    if (slot < kGraphThreadsMax) g_graph_threads[slot].tid.store(thread.tid, std::memory_order_relaxed);
  }
  if (thread.graph_slot < kGraphThreadsMax) {
    g_graph_threads[thread.graph_slot].last_ns.store(now_ns, std::memory_order_relaxed);
  }
}

struct GraphUse {
  enum Kind : std::uint8_t {
    none,        // no graph was launched since arming, nor in the seconds before in an earlier session
    one_thread,  // only `tid` launches graphs, or it was the last to do so for a good while
    several,     // or nobody knows
  } kind;
  std::uint32_t tid;
};

// Capture thread. `now_ns`: CLOCK_MONOTONIC.
[[nodiscard]] GraphUse graph_use(std::uint64_t now_ns);

// Capture thread, before a session records: those of the last one count on while they are recent.
void begin_graph_session(std::uint64_t now_ns);

// Capture thread and tests: as if no graph had ever been launched.
void forget_graph_threads();

}  // namespace pillion::shim
