// SPDX-License-Identifier: Apache-2.0
#include "cupti/detach_rules.h"

#include <unistd.h>

#include <atomic>
#include <map>
#include <mutex>
#include <thread>

#include "common/knobs.h"
#include "cupti/callbacks.h"
#include "cupti/driver.h"
#include "cupti/record_layout.h"

namespace simgpu {
namespace {

const std::uint64_t g_active_ns = knob("SIMGPU_GRAPH_ACTIVE_MS", 1000) * 1'000'000;

// How long a thread may be about its ENTER callback, preempted and all, before it counts as held there.
constexpr int kHeldMs = 2000;

struct Graph {
  bool recorded = false;
  bool stale = false;  // replayed unrecorded after it had been recorded
};

std::mutex g_mutex;
auto& g_last_launch = *new std::map<std::thread::id, std::uint64_t>;  // monotonic ns of each thread's last
auto& g_graphs = *new std::map<const void*, Graph>;                   // by graph exec
std::atomic<int> g_at_enter{0};
thread_local int t_at_enter = 0;

bool others_held_at_enter() {
  for (int ms = 0; ms < kHeldMs; ++ms) {
    if (g_at_enter.load(std::memory_order_acquire) - t_at_enter <= 0) return false;
    usleep(1000);
  }
  return true;
}

}  // namespace

AtEnter::AtEnter() {
  ++t_at_enter;
  g_at_enter.fetch_add(1, std::memory_order_acq_rel);
}

AtEnter::~AtEnter() {
  g_at_enter.fetch_sub(1, std::memory_order_acq_rel);
  --t_at_enter;
}

void note_graph_launch(const void* exec, bool recorded) {
  const std::uint64_t now = driver()->now_ns();
  const std::lock_guard lock(g_mutex);
  g_last_launch[std::this_thread::get_id()] = now;
  Graph& graph = g_graphs[exec];
  graph.stale = !recorded && graph.recorded;
  graph.recorded = graph.recorded || recorded;
}

void forget_graph(const void* exec) {
  const std::lock_guard lock(g_mutex);
  g_graphs.erase(exec);
}

void forget_graphs() {
  const std::lock_guard lock(g_mutex);
  g_last_launch.clear();
  g_graphs.clear();
}

const char* why_finalize_kills() {
  if (others_held_at_enter()) return "segmentation fault: another thread is held at ENTER";
  const std::lock_guard lock(g_mutex);
  for (const auto& [exec, graph] : g_graphs) {
    if (graph.stale)
      return "unspecified launch failure: CONCURRENT_KERNEL was disabled, then a graph was replayed";
  }
  if (cupti_version() < 24 && !g_last_launch.empty())
    return "graphs were launched, and CUPTI is older than 12.6";
  const std::uint64_t now = driver()->now_ns();
  int active = 0;
  bool self = false;
  for (const auto& [thread, last] : g_last_launch) {
    if (last + g_active_ns < now) continue;
    ++active;
    self = self || thread == std::this_thread::get_id();
  }
  if (active >= 2) return "illegal address: two or more threads replay graphs";
  if (active == 1 && !(self && inside_exit_callback())) {
    return "illegal memory access: a thread replays graphs, and this is not one of its API exits";
  }
  return nullptr;
}

}  // namespace simgpu
