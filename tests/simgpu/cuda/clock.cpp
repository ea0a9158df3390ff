// SPDX-License-Identifier: Apache-2.0
#include "cuda/clock.h"

#include <atomic>
#include <cerrno>
#include <ctime>

#include "common/knobs.h"

namespace simgpu {
namespace {

const bool g_virtual = knob("SIMGPU_VIRTUAL_TIME", 0) != 0;
std::atomic<std::uint64_t> g_skew_ns{0};

std::uint64_t monotonic_ns() {
  timespec ts{};
  clock_gettime(CLOCK_MONOTONIC, &ts);
  return static_cast<std::uint64_t>(ts.tv_sec) * 1'000'000'000u + static_cast<std::uint64_t>(ts.tv_nsec);
}

}  // namespace

std::uint64_t now_ns() {
  return monotonic_ns() + (g_virtual ? g_skew_ns.load(std::memory_order_relaxed) : 0);
}

void sleep_until(std::uint64_t ns) {
  if (g_virtual) {
    const std::uint64_t now = now_ns();
    if (ns > now) g_skew_ns.fetch_add(ns - now, std::memory_order_relaxed);
    return;
  }
  const timespec until{static_cast<time_t>(ns / 1'000'000'000u), static_cast<long>(ns % 1'000'000'000u)};
  while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, nullptr) == EINTR) {
  }
}

}  // namespace simgpu
