// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/event_loop.h"
#include "collect/module_store.h"
#include "pipeline/ask.h"
#include "pipeline/drained_target.h"

namespace pillion::pipeline {

// What a window takes in.
struct WindowScope {
  join::WindowId id = 0;
  std::optional<std::uint32_t> pid;
  std::optional<std::uint32_t> device;
  std::uint64_t t0_ns = 0;
  std::uint64_t t1_ns = join::Joiner::kOpenEnd;
};

// Totals since the program started; what has gone is included.
struct DrainTotals {
  pillion_counters shim{};  // summed; the fields that say how things stand are 0
  JoinCounters join;
  collect::CollectCounts collect;
  std::uint64_t gpu_ns = 0;
};

// The thread that empties the rings of all targets and owns all that is joined from them. It never waits for
// a workload, a file or the unwinder. Every method but the constructor, start(), stop(), loop() and beat_ns()
// runs on its own thread: get there by loop().post or ask().
class DrainThread {
 public:
  // `bell` rings when something changed that a window may wait for. Both outlive it.
  DrainThread(std::unique_ptr<EventLoop> loop, std::chrono::milliseconds drain_every, Bell& bell);
  ~DrainThread() { stop(); }

  void start(UnwindThread& unwinder);
  void stop();
  [[nodiscard]] EventLoop& loop() { return *loop_; }
  // When it last drained, CLOCK_MONOTONIC; any thread.
  [[nodiscard]] std::uint64_t beat_ns() const { return beat_ns_.load(std::memory_order_relaxed); }

  void add(ArmedTarget armed);
  void end(TargetId target, std::uint64_t generation, std::string why);
  void on_unwound(const UnwoundSnapshot& unwound);

  void open_window(const WindowScope& scope);
  void end_window(join::WindowId id, std::uint64_t t1_ns);
  // Drains once, then says what still stands between the window and its end, over all its targets.
  [[nodiscard]] join::Settlement settle(join::WindowId id);
  [[nodiscard]] std::vector<WindowPart> close_window(join::WindowId id, std::uint64_t t1_ns);
  void abandon_window(join::WindowId id);
  [[nodiscard]] std::size_t open_windows() const { return windows_.size(); }

  [[nodiscard]] DrainTotals totals();
  [[nodiscard]] const collect::ModuleStore& modules() const { return modules_; }

 private:
  void drain_all();
  void drop_unneeded();
  [[nodiscard]] bool in_scope(const DrainedTarget& target, const WindowScope& scope) const;
  static void add_to(DrainTotals& totals, DrainedTarget& target);

  std::unique_ptr<EventLoop> loop_;
  const std::chrono::milliseconds drain_every_;
  Bell& bell_;
  UnwindThread* unwinder_ = nullptr;
  collect::ModuleStore modules_;
  std::vector<std::unique_ptr<DrainedTarget>> targets_;
  std::vector<WindowScope> windows_;
  DrainTotals gone_;      // of targets that were dropped
  bool goes_on_ = false;  // another drain_all() is posted
  std::atomic<std::uint64_t> beat_ns_{0};
  std::thread thread_;  // last: it uses everything above
};

}  // namespace pillion::pipeline
