// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <limits>
#include <span>

#include "base/idle_data.h"
#include "timeline/interval.h"

namespace pillion::timeline {

inline constexpr std::uint64_t kNever = std::numeric_limits<std::uint64_t>::max();

// A piece of the time in which a device ran no kernel and no memset. begin < end.
struct IdlePart {
  std::uint64_t begin_ns = 0;
  std::uint64_t end_ns = 0;
  IdleCause cause = IdleCause::unknown;
  IdleEdge edge = IdleEdge::none;
  // Whose launch it is charged to; null: nothing ended it in time, and no launch was pending.
  const Interval* ended_by = nullptr;
};

// What a sweep asks of its surroundings, and gives.
class SweepSite {
 public:
  virtual ~SweepSite() = default;
  virtual void on_idle(const IdlePart& part) = 0;
  // How long the thread that launched `launch` waited for the GPU, in calls that returned after `after_ns`
  // and not after `until_ns`.
  [[nodiscard]] virtual std::uint64_t waited_ns(const Interval& launch, std::uint64_t after_ns,
                                                std::uint64_t until_ns) const = 0;
};

enum class SweepEnd : std::uint8_t {
  window,  // all of it is decided, up to to_ns
  open,    // more will follow: a gap whose end is not known yet is left to a later sweep
  cut      // more will follow, but to_ns is decided all the same
};

struct Sweep {
  std::span<const Interval> intervals;  // sorted by before(); those that end before from_ns are passed over
  std::uint64_t from_ns = 0;
  std::uint64_t to_ns = 0;
  bool from_window = false;  // the window begins at from_ns: a gap there is longer than it looks
  SweepEnd end = SweepEnd::window;
  const Interval* pending = nullptr;  // with `window`: the first launch whose execution has not come
};

struct SweepSums {
  std::uint64_t busy_ns = 0;
  std::uint64_t kernel_ns = 0;
  std::uint64_t kernel_busy_ns = 0;
};

// Goes over one device's time from `from_ns` on. Returns up to when it is decided: with `open` the beginning
// of the last gap where `to_ns` lies in one, else to_ns. The parts that `site` gets and what is added to
// sums.busy_ns are together exactly that time.
//
// The rules. Kernels and memsets keep a device busy. Time without any of them is idle; of it, where a copy is
// in flight, the cause is `copy`, and it is charged to the kernel or memset that comes next. Any other piece
// of it is charged to the execution, of whatever kind, that ends it. Before that one's launch call it is
// host-bound, after it queued. Of the host-bound time, the first so many nanoseconds are `synchronising` as
// the launching thread had waited for the GPU between the launch of what ran last and this launch: without
// the waiting the launch would have come so much earlier. At the window's end, where nothing ends a gap, it
// is host-bound up to the first launch whose execution has not come, and unknown after it, charged to that
// launch.
[[nodiscard]] std::uint64_t sweep(const Sweep& over, SweepSite& site, SweepSums& sums);

}  // namespace pillion::timeline
