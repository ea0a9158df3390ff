// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/clock_watch.h"
#include "base/event_loop.h"
#include "collect/module_store.h"
#include "pipeline/anomaly_log.h"
#include "pipeline/ask.h"
#include "pipeline/drained_target.h"

namespace pillion::pipeline {

// What a window takes in.
struct WindowScope {
  join::WindowId id = 0;
  std::optional<std::uint32_t> pid;
  std::optional<std::uint32_t> device;
  std::uint64_t duration_ns = 0;
  bool idle = false;        // an idle profile is made of it, too
  std::uint64_t t0_ns = 0;  // set when it opens
  std::uint64_t t1_ns = join::Joiner::kOpenEnd;
};

// What a window took in, for build().
struct ClosedWindow {
  std::vector<WindowPart> parts;
  std::optional<IdleData> idle;
};

// Totals since the program started; what has gone is included.
struct DrainTotals {
  pillion_counters shim{};  // summed; the fields that say how things stand are 0
  JoinCounters join;
  collect::CollectCounts collect;
  std::uint64_t gpu_ns = 0;
  std::uint64_t snapshots_dropped = 0;  // the unwinder's queue was full
  std::uint64_t counters_implausible = 0;
  std::uint64_t windows_unsettled = 0;
  std::uint64_t clock_steps = 0;
  std::uint64_t modules_evicted = 0;
  PythonTotals python;
  IdleCounters idle;
};

[[nodiscard]] profile::AnomalyCounts anomaly_counts(const DrainTotals& totals);

// The thread that empties the rings of all targets and owns all that is joined from them. It never waits for
// a workload, a file or the unwinder. Every method but the constructor, start(), stop(), loop() and beat_ns()
// runs on its own thread: get there by loop().post or ask().
class DrainThread {
 public:
  // `bell` rings when something changed that a window may wait for. Both outlive it.
  // `forget` is called on this thread once nothing is left of a target that has gone.
  DrainThread(std::unique_ptr<EventLoop> loop, std::chrono::milliseconds drain_every, Bell& bell,
              std::function<void(TargetId)> forget);
  ~DrainThread() { stop(); }

  void start(UnwindThread& unwinder);
  void stop();
  [[nodiscard]] EventLoop& loop() { return *loop_; }
  // When it last drained, CLOCK_MONOTONIC; any thread.
  [[nodiscard]] std::uint64_t beat_ns() const { return beat_ns_.load(std::memory_order_relaxed); }

  void add(ArmedTarget armed);
  void end(TargetId target, std::uint64_t generation, std::string why);
  // The connection has ended: no arming of this target comes any more.
  void leave(TargetId target);
  void on_unwound(const UnwoundSnapshot& unwound);
  void note_python(TargetId target, std::uint64_t generation, const std::string& summary);

  // Begins the window now, and says when that was.
  [[nodiscard]] std::uint64_t open_window(WindowScope scope);
  void end_window(join::WindowId id, std::uint64_t t1_ns);
  // Drains, then says what still stands between the window and its end, over all its targets.
  struct Settled {
    join::Settlement open;
    bool read_all = true;  // what was in the rings when it was called has been read: else there was no time
  };
  [[nodiscard]] Settled settle(join::WindowId id);
  [[nodiscard]] ClosedWindow close_window(join::WindowId id, std::uint64_t t1_ns, bool unsettled);
  void abandon_window(join::WindowId id);
  [[nodiscard]] std::size_t open_windows() const { return windows_.size(); }

  [[nodiscard]] DrainTotals totals();
  [[nodiscard]] const collect::ModuleStore& modules() const { return modules_; }
  [[nodiscard]] ClockWatch& clock_watch() { return clock_watch_; }  // any thread

 private:
  void drain_all();
  bool drain_until(std::uint64_t deadline_ns);  // whether more should follow
  void drop_unneeded();
  void forget_left();
  void open_in(DrainedTarget& target, const WindowScope& scope, bool from_arming);
  [[nodiscard]] std::optional<IdleData> close_idle(join::WindowId id, std::uint64_t t1_ns);
  void spread_idle(IdleData& idle, std::vector<WindowPart>& parts) const;
  [[nodiscard]] bool in_scope(const DrainedTarget& target, const WindowScope& scope) const;
  static void add_to(DrainTotals& totals, DrainedTarget& target, const JoinCounters& join);
  [[nodiscard]] DrainTotals losses();  // totals() without what is pending

  std::unique_ptr<EventLoop> loop_;
  const std::chrono::milliseconds drain_every_;
  Bell& bell_;
  const std::function<void(TargetId)> forget_;
  UnwindThread* unwinder_ = nullptr;
  collect::ModuleStore modules_;
  timeline::IdleTimeline timeline_;
  SessionId newest_session_ = 0;
  std::vector<std::unique_ptr<DrainedTarget>> targets_;
  std::vector<WindowScope> windows_;
  std::vector<TargetId> left_;  // connections that ended, windows of which may be open
  DrainTotals gone_;            // of targets that were dropped
  ClockWatch clock_watch_;
  AnomalyLog anomaly_log_;
  bool goes_on_ = false;     // another drain_all() is posted
  std::size_t turn_of_ = 0;  // the target whose turn it is
  std::atomic<std::uint64_t> beat_ns_{0};
  std::thread thread_;  // last: it uses everything above
};

}  // namespace pillion::pipeline
