// SPDX-License-Identifier: Apache-2.0
#include "graph_threads.h"

namespace pillion::shim {
namespace {

// "In the last seconds", with room: a thread that pauses for a validation step is still one that replays
// graphs.
constexpr std::uint64_t kRecentNs = 30'000'000'000;

}  // namespace

GraphThread g_graph_threads[kGraphThreadsMax];
std::atomic<std::uint32_t> g_graph_thread_count{0};

GraphUse graph_use(std::uint64_t now_ns) {
  const std::uint32_t count = g_graph_thread_count.load(std::memory_order_relaxed);
  if (count == 0) return {GraphUse::none, 0};
  if (count > kGraphThreadsMax) return {GraphUse::several, 0};
  std::uint32_t recent = 0;
  std::uint32_t newest_tid = 0;
  std::uint64_t newest_ns = 0;
  for (std::uint32_t slot = 0; slot < count; ++slot) {
    const std::uint64_t last = g_graph_threads[slot].last_ns.load(std::memory_order_relaxed);
    if (last + kRecentNs > now_ns) ++recent;
    if (last < newest_ns) continue;
    newest_ns = last;
    newest_tid = g_graph_threads[slot].tid.load(std::memory_order_relaxed);
  }
  if (recent > 1) return {GraphUse::several, 0};
  return {GraphUse::one_thread, newest_tid};
}

void forget_graph_threads() { g_graph_thread_count.store(0, std::memory_order_relaxed); }

}  // namespace pillion::shim
