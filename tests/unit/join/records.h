// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <catch2/catch_test_macros.hpp>
#include <cstdint>
#include <string>
#include <utility>

#include "join/joiner.h"

// Records as the tests of the join write them.
namespace pillion::join {

inline constexpr std::uint64_t kSecond = 1'000'000'000;
inline constexpr std::uint64_t kArmed = 1000 * kSecond;

inline RawLaunch launch(std::uint32_t correlation, std::uint64_t time_ns, bool snapshot = false,
                        std::uint64_t context_key = 1, LaunchKind kind = LaunchKind::kernel) {
  RawLaunch raw;
  raw.correlation = correlation;
  raw.tid = 100;
  raw.time_ns = time_ns;
  raw.context_key = context_key;
  raw.cbid = kind == LaunchKind::graph ? 514 : 307;
  raw.kind = kind;
  raw.has_snapshot = snapshot;
  return raw;
}

inline RawExecution kernel(std::uint32_t correlation, std::uint64_t start_ns, std::uint64_t end_ns) {
  RawExecution raw;
  raw.correlation = correlation;
  raw.context = 1;
  raw.stream = 7;
  raw.start_ns = start_ns;
  raw.end_ns = end_ns;
  raw.name = 1;
  return raw;
}

struct Totals {
  std::uint64_t count = 0, gpu_ns = 0, queue_ns = 0, bytes = 0;
  bool operator==(const Totals&) const = default;
};

inline Totals totals(const WindowData& data) {
  Totals out;
  for (const JoinedSample& s : data.samples) {
    out = {out.count + s.count, out.gpu_ns + s.gpu_ns, out.queue_ns + s.queue_ns, out.bytes + s.bytes};
  }
  return out;
}

// A Joiner whose session began at kArmed and whose clock is driven by hand.
struct Session {
  explicit Session(Limits limits = {}) : joiner(1, limits) { joiner.on_session(kArmed); }
  void drains(int times) {
    for (int i = 0; i < times; ++i) joiner.on_drain_cycle(now += 50'000'000);
  }
  Joiner joiner;
  std::uint64_t now = kArmed;
};

// The window that most tests have, and its end.
inline constexpr WindowId kWindow = 1;
inline constexpr std::uint64_t kT1 = kArmed + 20 * kSecond;

inline void open(Session& s, WindowId id = kWindow, std::uint64_t t0 = kArmed, std::uint64_t t1 = kT1) {
  REQUIRE(s.joiner.open_window(id, {}, t0, t1).has_value());
}

inline WindowData close(Session& s, WindowId id = kWindow, std::uint64_t t1 = kT1) {
  auto data = s.joiner.close_window(id, t1);
  REQUIRE(data.has_value());
  return std::move(*data);
}

}  // namespace pillion::join
