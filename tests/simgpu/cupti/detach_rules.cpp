// SPDX-License-Identifier: Apache-2.0
#include "cupti/detach_rules.h"

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

std::mutex g_mutex;
auto& g_last_launch = *new std::map<std::thread::id, std::uint64_t>;  // monotonic ns of each thread's last
bool g_kernels_disabled = false;
bool g_replayed_while_disabled = false;

}  // namespace

void note_graph_launch() {
  const std::uint64_t now = driver()->now_ns();
  const std::lock_guard lock(g_mutex);
  g_last_launch[std::this_thread::get_id()] = now;
  if (g_kernels_disabled) g_replayed_while_disabled = true;
}

void note_kernels_disabled() {
  const std::lock_guard lock(g_mutex);
  g_kernels_disabled = true;
}

void note_kernels_enabled() {
  const std::lock_guard lock(g_mutex);
  g_kernels_disabled = false;
  g_replayed_while_disabled = false;
}

void forget_graphs() {
  const std::lock_guard lock(g_mutex);
  g_last_launch.clear();
  g_kernels_disabled = false;
  g_replayed_while_disabled = false;
}

const char* why_finalize_kills() {
  const std::lock_guard lock(g_mutex);
  if (g_replayed_while_disabled) {
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
