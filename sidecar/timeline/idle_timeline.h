// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/host_sync.h"
#include "base/idle_data.h"
#include "base/result.h"
#include "records.h"
#include "timeline/host_waits.h"
#include "timeline/idle_window.h"
#include "timeline/interval.h"
#include "timeline/launch_table.h"
#include "timeline/limits.h"

namespace pillion::timeline {

// An execution as the join settled it. CLOCK_MONOTONIC nanoseconds, start <= end.
struct Ran {
  JoinedSample launch;
  std::uint64_t context_key = 0;
  std::uint64_t start_ns = 0;
  std::uint64_t end_ns = 0;
  std::uint64_t launched_ns = 0;   // 0: not known
  std::uint32_t other_device = 0;  // of a copy between devices; else equal to launch.device
};

// The executions of all devices of all sessions, for as long as they may still tell what was idle, and the
// idle windows that are open. Without one it keeps nothing but which devices there are. One owner thread (the
// one that drains). Executions may come in any order.
class IdleTimeline {
 public:
  explicit IdleTimeline(Limits limits = {});

  // What a session has. A device is in a window from the moment when one of its sessions has a context on it
  // or runs something on it, and then for the window's whole time.
  void add_session(SessionId session, std::uint32_t pid);
  void on_context(SessionId session, std::uint32_t device);
  void on_device(SessionId session, const RawDevice& device);
  void drop_session(SessionId session);  // when no window covers it any more

  void on_execution(SessionId session, const Ran& ran);
  void on_host_sync(SessionId session, const HostSync& sync);

  // Fails when the id is open or t1 <= t0.
  [[nodiscard]] Result<void> open_window(WindowId id, std::optional<std::uint32_t> device,
                                         std::uint64_t t0_ns, std::uint64_t t1_ns);
  void enter_window(WindowId id, SessionId session);
  void end_window(WindowId id, std::uint64_t t1_ns);
  void abandon_window(WindowId id);

  // What the join has not settled when a window closes.
  struct Open {
    std::vector<std::pair<SessionId, Ran>> executions;  // that still wait for their launch or its stack
    std::map<SessionId, Ran> pending;  // the first launch without an execution; its device is not known
  };
  [[nodiscard]] Result<IdleData> close_window(WindowId id, std::uint64_t t1_ns, const Open& open);

  [[nodiscard]] bool has_window(WindowId id) const;
  [[nodiscard]] bool has_windows() const { return !windows_.empty(); }
  // Since it was made.
  [[nodiscard]] const IdleCounters& counters() const { return counters_; }
  [[nodiscard]] std::size_t intervals() const { return intervals_; }

 private:
  using Uuid = std::array<std::uint8_t, 16>;
  struct Log {
    bool used = false;  // a context is on it, or something ran
    std::optional<Uuid> uuid;
    std::vector<Interval> intervals;  // in the order in which they came
  };
  using Members = std::map<std::string, std::vector<SessionDevice>>;

  Log* log(const SessionDevice& device);
  void add(const SessionDevice& device, const Interval& interval);
  [[nodiscard]] Interval interval_of(SessionId session, const Ran& ran);
  [[nodiscard]] std::string name_now(const SessionDevice& device, const Log& of) const;
  [[nodiscard]] Members members_of(IdleWindow& window);
  [[nodiscard]] std::optional<Interval> pending_on(const std::vector<SessionDevice>& members,
                                                   const Open& open);
  void gather(const std::vector<SessionDevice>& members, std::vector<Interval>& out) const;
  void count_late(const SessionDevice& device, const Log& of, const Interval& interval);
  void make_room();
  void decide_until(std::uint64_t to_ns, SweepEnd end);
  void forget_decided();
  void forget_intervals();
  [[nodiscard]] IdleWindow* window(WindowId id);
  [[nodiscard]] IdleWindow::Sources sources() { return {launches_, waits_, limits_.cells_max}; }
  void count_merged(const IdleWindow& window, const IdleCounters& before);

  const Limits limits_;
  std::map<SessionId, std::uint32_t> pids_;
  std::map<SessionDevice, Log> logs_;
  std::size_t intervals_ = 0;
  std::uint64_t decided_ns_ = 0;  // no window has decided anything after it
  LaunchTable launches_;
  HostWaits waits_;
  std::vector<IdleWindow> windows_;
  IdleCounters counters_;
};

}  // namespace pillion::timeline
