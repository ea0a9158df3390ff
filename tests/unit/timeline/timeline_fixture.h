// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <numeric>

#include "timeline/idle_timeline.h"

namespace pillion::timeline {

inline constexpr SessionId kSession = 1;
inline constexpr std::uint32_t kThread = 100;
inline constexpr std::uint64_t kT0 = 1'000'000;

// What a launch at `site` (its stack) ran on `device` from `start` to `end`; times from kT0.
struct Script {
  std::uint32_t device = 0;
  std::uint32_t stream = 7;
  ExecutionKind kind = ExecutionKind::kernel;
  std::uint32_t tid = kThread;

  [[nodiscard]] Ran ran(StackId site, std::int64_t launched, std::int64_t start, std::int64_t end) const {
    Ran out;
    out.launch.device = device;
    out.launch.context = 1;
    out.launch.stream = stream;
    out.launch.tid = tid;
    out.launch.kind = kind;
    out.launch.stack = site;
    out.launch.attribution = Attribution::exact;
    out.start_ns = kT0 + static_cast<std::uint64_t>(start);
    out.end_ns = kT0 + static_cast<std::uint64_t>(end);
    out.launched_ns = kT0 + static_cast<std::uint64_t>(launched);
    out.other_device = device;
    return out;
  }
};

inline HostSync sync_call(std::int64_t start, std::int64_t end, std::uint32_t tid = kThread) {
  return {tid, kT0 + static_cast<std::uint64_t>(start), kT0 + static_cast<std::uint64_t>(end)};
}

// A timeline with one session and one window, [0, length).
struct OneWindow {
  explicit OneWindow(std::uint64_t length, Limits limits = {}) : timeline(limits), length_(length) {
    timeline.add_session(kSession, 42);
    (void)timeline.open_window(1, {}, kT0, kT0 + length);
    timeline.enter_window(1, kSession);
  }
  void run(const Ran& ran) { timeline.on_execution(kSession, ran); }
  IdleData close(const IdleTimeline::Open& open = {}) {
    auto data = timeline.close_window(1, kT0 + length_, open);
    return data ? std::move(*data) : IdleData{};
  }
  IdleTimeline timeline;

 private:
  std::uint64_t length_;
};

struct Row {
  StackId site;
  IdleCause cause;
  IdleEdge edge = IdleEdge::none;
};

// Nanoseconds of the rows of this kind on `device` that a launch has whose execution did not come.
inline std::uint64_t pending_ns(const IdleData& data, const Row& row, std::uint32_t device = 0) {
  std::uint64_t total = 0;
  for (const IdleSample& sample : data.samples) {
    if (sample.pending && !sample.ended && sample.launch.device == device &&
        sample.launch.stack == row.site && sample.cause == row.cause && sample.edge == row.edge)
      total += sample.ns;
  }
  return total;
}

// Nanoseconds of the rows of this kind on `device`; site 0: that nothing ended.
inline std::uint64_t ns(const IdleData& data, const Row& row, std::uint32_t device = 0) {
  std::uint64_t total = 0;
  for (const IdleSample& sample : data.samples) {
    if (sample.launch.device == device && sample.launch.stack == row.site &&
        sample.ended == (row.site != 0) && sample.cause == row.cause && sample.edge == row.edge)
      total += sample.ns;
  }
  return total;
}

inline std::uint64_t idle_ns(const DeviceUse& use) {
  return std::accumulate(use.idle_ns.begin(), use.idle_ns.end(), std::uint64_t{0});
}

// busy + idle = window x devices, in the devices' sums and in the rows.
inline bool adds_up(const IdleData& data) {
  std::uint64_t idle = 0;
  for (const DeviceUse& use : data.devices) {
    if (use.busy_ns + idle_ns(use) != use.window_ns) return false;
    idle += idle_ns(use);
  }
  std::uint64_t rows = 0;
  for (const IdleSample& sample : data.samples) rows += sample.ns;
  return rows == idle;
}

}  // namespace pillion::timeline
