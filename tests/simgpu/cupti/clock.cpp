// SPDX-License-Identifier: Apache-2.0
#include "cupti/clock.h"

#include <atomic>
#include <ctime>

#include "common/knobs.h"
#include "cupti/driver.h"

namespace simgpu {
namespace {

std::atomic<pillion::cupti::TimestampFunc> g_callback{nullptr};
std::atomic<std::int64_t> g_offset_ns{0};
std::atomic<std::int64_t> g_spoiled_ns{0};

// SIMGPU_CLOCK_STEP_NS: the client's clock jumps by this after SIMGPU_CLOCK_STEP_AFTER conversions.
const auto g_step_ns = static_cast<std::int64_t>(knob("SIMGPU_CLOCK_STEP_NS", 0));
const std::uint64_t g_step_after = knob("SIMGPU_CLOCK_STEP_AFTER", 1000);
std::atomic<std::uint64_t> g_conversions{0};

std::uint64_t realtime_ns() {
  timespec ts{};
  clock_gettime(CLOCK_REALTIME, &ts);
  return static_cast<std::uint64_t>(ts.tv_sec) * 1'000'000'000u + static_cast<std::uint64_t>(ts.tv_nsec);
}

std::int64_t step_ns() {
  if (g_step_ns == 0) return 0;
  return g_conversions.fetch_add(1, std::memory_order_relaxed) >= g_step_after ? g_step_ns : 0;
}

}  // namespace

std::uint64_t client_now_ns() {
  const auto callback = g_callback.load(std::memory_order_acquire);
  return callback != nullptr ? callback() : realtime_ns();
}

bool register_timestamp_callback(pillion::cupti::TimestampFunc callback) {
  if (callback == nullptr) return false;
  if (g_callback.exchange(callback, std::memory_order_acq_rel) != nullptr) g_spoiled_ns = 100'000'000'000'000;
  measure_clock_offset();
  return true;
}

void measure_clock_offset() {
  const Driver* cuda = driver();
  if (cuda == nullptr) return;
  std::uint64_t tightest = ~std::uint64_t{0};
  std::int64_t offset = 0;
  for (int i = 0; i < 8; ++i) {
    const std::uint64_t before = cuda->now_ns();
    const std::uint64_t client = client_now_ns();
    const std::uint64_t after = cuda->now_ns();
    if (after - before >= tightest) continue;
    tightest = after - before;
    offset = static_cast<std::int64_t>(client - (before + (after - before) / 2));
  }
  // The same clock on both sides: the measured difference is the reading's own error.
  if (static_cast<std::uint64_t>(offset < 0 ? -offset : offset) <= tightest) offset = 0;
  g_offset_ns.store(offset, std::memory_order_relaxed);
}

std::uint64_t client_ns(std::uint64_t monotonic_ns) {
  return monotonic_ns + static_cast<std::uint64_t>(g_offset_ns.load(std::memory_order_relaxed) +
                                                   g_spoiled_ns.load(std::memory_order_relaxed) + step_ns());
}

}  // namespace simgpu
