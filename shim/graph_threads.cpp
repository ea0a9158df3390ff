// SPDX-License-Identifier: Apache-2.0
#include "graph_threads.h"

namespace pillion::shim {
namespace {

// "In the last seconds", with room: a thread that pauses for a validation step is still one that replays
// graphs.
constexpr std::uint64_t kRecentNs = 30'000'000'000;

struct Known {
  std::uint32_t tid;
  std::uint64_t last_ns;
};

// Capture thread: of earlier sessions, each thread once.
Known g_earlier[kGraphThreadsMax];
std::uint32_t g_earlier_count = 0;
std::uint64_t g_too_many_ns = 0;  // when there were last too many to tell; 0: never

bool recent(std::uint64_t last_ns, std::uint64_t now_ns) { return last_ns + kRecentNs > now_ns; }

// Puts a thread into a table without doubles.
std::uint32_t note_known(Known* table, std::uint32_t count, const Known& one) {
  for (std::uint32_t at = 0; at < count; ++at) {
    if (table[at].tid != one.tid) continue;
    if (one.last_ns > table[at].last_ns) table[at].last_ns = one.last_ns;
    return count;
  }
  table[count] = one;
  return count + 1;
}

// All threads that are known, each once; `table` has room for twice the maximum.
std::uint32_t collect(Known* table) {
  std::uint32_t known = 0;
  for (std::uint32_t at = 0; at < g_earlier_count; ++at) known = note_known(table, known, g_earlier[at]);
  const std::uint32_t count = g_graph_thread_count.load(std::memory_order_relaxed);
  for (std::uint32_t slot = 0; slot < count && slot < kGraphThreadsMax; ++slot) {
    known = note_known(table, known,
                       {g_graph_threads[slot].tid.load(std::memory_order_relaxed),
                        g_graph_threads[slot].last_ns.load(std::memory_order_relaxed)});
  }
  return known;
}

}  // namespace

GraphThread g_graph_threads[kGraphThreadsMax];
std::atomic<std::uint32_t> g_graph_thread_count{0};

GraphUse graph_use(std::uint64_t now_ns) {
  if (g_graph_thread_count.load(std::memory_order_relaxed) > kGraphThreadsMax) return {GraphUse::several, 0};
  if (g_too_many_ns != 0 && recent(g_too_many_ns, now_ns)) return {GraphUse::several, 0};
  Known known[2 * kGraphThreadsMax];
  const std::uint32_t count = collect(known);
  if (count == 0) return {GraphUse::none, 0};
  std::uint32_t recently = 0;
  Known newest{};
  for (std::uint32_t at = 0; at < count; ++at) {
    if (recent(known[at].last_ns, now_ns)) ++recently;
    if (known[at].last_ns >= newest.last_ns) newest = known[at];
  }
  if (recently > 1) return {GraphUse::several, 0};
  return {GraphUse::one_thread, newest.tid};
}

void begin_graph_session(std::uint64_t now_ns) {
  Known known[2 * kGraphThreadsMax];
  const std::uint32_t count = collect(known);
  const bool too_many = g_graph_thread_count.load(std::memory_order_relaxed) > kGraphThreadsMax;
  g_graph_thread_count.store(0, std::memory_order_relaxed);
  std::uint32_t kept = 0;
  for (std::uint32_t at = 0; at < count; ++at) {
    if (!recent(known[at].last_ns, now_ns)) continue;
    if (kept < kGraphThreadsMax) g_earlier[kept] = known[at];
    ++kept;
  }
  if (too_many || kept > kGraphThreadsMax) g_too_many_ns = now_ns;
  g_earlier_count = kept < kGraphThreadsMax ? kept : kGraphThreadsMax;
}

void forget_graph_threads() {
  g_graph_thread_count.store(0, std::memory_order_relaxed);
  g_earlier_count = 0;
  g_too_many_ns = 0;
}

}  // namespace pillion::shim
