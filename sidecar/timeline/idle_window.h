// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/flat_map.h"
#include "base/idle_data.h"
#include "timeline/host_waits.h"
#include "timeline/interval.h"
#include "timeline/launch_table.h"
#include "timeline/sweep.h"

namespace pillion::timeline {

using WindowId = std::uint64_t;

// A device as one session numbers it.
using SessionDevice = std::pair<SessionId, std::uint32_t>;

// What one window has decided so far. A device that several sessions use is one device in it. Owner: the
// IdleTimeline's thread.
class IdleWindow {
 public:
  IdleWindow(WindowId id, std::optional<std::uint32_t> device, std::uint64_t t0_ns, std::uint64_t t1_ns)
      : id_(id), device_(device), t0_ns_(t0_ns), t1_ns_(t1_ns) {}

  // What sweeps read, of the whole timeline.
  struct Sources {
    LaunchTable& launches;
    const HostWaits& waits;
    std::size_t cells_max;
  };

  [[nodiscard]] WindowId id() const { return id_; }
  [[nodiscard]] std::uint64_t t0_ns() const { return t0_ns_; }
  [[nodiscard]] std::uint64_t t1_ns() const { return t1_ns_; }
  // Brings the end forward, to what has been decided at most.
  void end_at(std::uint64_t t1_ns);

  void enter(SessionId session);
  // Whether it takes in this device of this session.
  [[nodiscard]] bool covers(const SessionDevice& device) const;

  // The device that `device` is, by the name that it had when the window first decided something of it.
  [[nodiscard]] const std::string& name_of(const SessionDevice& device, const std::string& name_now);
  // Up to when its time is decided.
  [[nodiscard]] std::uint64_t decided_ns(const std::string& name) const;

  // Decides up to `to_ns` and not beyond the window's end; see sweep().
  void decide(const std::string& name, std::span<const Interval> sorted, std::uint64_t to_ns, SweepEnd end,
              const Interval* pending, SessionDevice first_member, const Sources& sources);

  [[nodiscard]] IdleCounters& counters() { return counters_; }
  [[nodiscard]] const IdleCounters& counters() const { return counters_; }

  // Leaves it empty. `members`: of each device.
  [[nodiscard]] IdleData finish(const LaunchTable& launches,
                                const std::map<std::string, std::vector<SessionDevice>>& members);

 private:
  class Charge;
  struct Device {
    std::uint64_t decided_ns = 0;
    SweepSums sums;
    std::array<std::uint64_t, kIdleCauses> idle_ns{};
  };
  struct Cell {
    std::uint64_t gaps = 0;
    std::uint64_t ns = 0;
  };
  // Launch, cause and edge in one word.
  using CellKey = std::uint64_t;
  void charge(std::uint32_t launch, const IdlePart& part, const Sources& sources);

  WindowId id_;
  std::optional<std::uint32_t> device_;
  std::uint64_t t0_ns_;
  std::uint64_t t1_ns_;
  std::vector<SessionId> sessions_;
  std::map<SessionDevice, std::string> names_;
  std::map<std::string, Device> devices_;
  FlatMap<CellKey, Cell> cells_;
  IdleCounters counters_;
};

}  // namespace pillion::timeline
