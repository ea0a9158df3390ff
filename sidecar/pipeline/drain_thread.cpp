// SPDX-License-Identifier: Apache-2.0
#include "pipeline/drain_thread.h"

#include <algorithm>
#include <array>
#include <bit>
#include <utility>

#include "base/clock.h"
#include "base/log.h"

namespace pillion::pipeline {
namespace {

// How long it goes on draining while rings are found more than a quarter full, before other work gets its
// turn: at full speed on a busy machine they always are, and a window has to begin and end all the same.
constexpr std::uint64_t kTurnNs = 20'000'000;
// How long a window that ends may have all rings read for it.
constexpr std::uint64_t kSettleTurnNs = 200'000'000;
// How often it looks for anomalies to log and for steps of the clock.
constexpr std::chrono::milliseconds kWatchEvery{1'000};
// Between a target's last window and the moment when what is known of its code goes: that window's profile is
// still being built meanwhile.
constexpr std::chrono::seconds kForgetAfter{120};

template <typename Counts>
void add_words(Counts& sum, const Counts& more) {
  static_assert(sizeof(Counts) % sizeof(std::uint64_t) == 0);
  using Words = std::array<std::uint64_t, sizeof(Counts) / sizeof(std::uint64_t)>;
  auto words = std::bit_cast<Words>(sum);
  const auto added = std::bit_cast<Words>(more);
  for (std::size_t i = 0; i < words.size(); ++i) words[i] += added[i];
  sum = std::bit_cast<Counts>(words);
}

}  // namespace

DrainThread::DrainThread(std::unique_ptr<EventLoop> loop, std::chrono::milliseconds drain_every, Bell& bell,
                         std::function<void(TargetId)> forget)
    : loop_(std::move(loop)), drain_every_(drain_every), bell_(bell), forget_(std::move(forget)) {}

void DrainThread::start(UnwindThread& unwinder) {
  unwinder_ = &unwinder;
  beat_ns_ = monotonic_ns();
  loop_->every(drain_every_, [this] {
    if (!goes_on_) drain_all();
  });
  loop_->every(kWatchEvery, [this] { anomaly_log_.note(anomaly_counts(losses()), monotonic_ns()); });
  thread_ = std::thread([this] {
    loop_->run();
    anomaly_log_.finish(anomaly_counts(losses()));
  });
}

void DrainThread::stop() {
  loop_->stop();
  if (thread_.joinable()) thread_.join();
}

void DrainThread::drain_all() {
  const bool again = drain_until(monotonic_ns() + kTurnNs);
  beat_ns_.store(monotonic_ns(), std::memory_order_relaxed);
  if (again && !goes_on_) {
    goes_on_ = loop_->post([this] {
      goes_on_ = false;
      drain_all();
    });
  }
}

// Round after round; where the time ends a round, the next one begins with the target that was not reached.
bool DrainThread::drain_until(std::uint64_t deadline_ns) {
  bool again = true;
  while (again) {
    again = false;
    for (std::size_t i = 0; i < targets_.size(); ++i, ++turn_of_) {
      DrainedTarget& target = *targets_[turn_of_ % targets_.size()];
      if (target.ended()) continue;
      if (monotonic_ns() >= deadline_ns) return true;
      again |= target.drain(deadline_ns);
    }
    if (monotonic_ns() >= deadline_ns) break;
  }
  return again;
}

void DrainThread::add(ArmedTarget armed) {
  targets_.push_back(
      std::make_unique<DrainedTarget>(std::move(armed), ++newest_session_, modules_, *unwinder_, timeline_));
  for (const auto& scope : windows_) {
    if (in_scope(*targets_.back(), scope)) open_in(*targets_.back(), scope, true);
  }
}

void DrainThread::open_in(DrainedTarget& target, const WindowScope& scope, bool from_arming) {
  target.open_window(scope.id, {scope.device}, scope.t0_ns, scope.t1_ns, from_arming);
  if (scope.idle) timeline_.enter_window(scope.id, target.session());
}

void DrainThread::end(TargetId target, std::uint64_t generation, std::string why) {
  for (const auto& held : targets_) {
    if (held->target() == target && held->generation() == generation && !held->ended())
      held->end(std::move(why));
  }
  drop_unneeded();
  bell_.ring();
}

void DrainThread::leave(TargetId target) {
  left_.push_back(target);
  forget_left();
}

void DrainThread::forget_left() {
  std::erase_if(left_, [this](TargetId left) {
    const bool needed = std::any_of(targets_.begin(), targets_.end(),
                                    [left](const auto& target) { return target->target() == left; });
    if (!needed) loop_->after(kForgetAfter, [this, left] { forget_(left); });
    return !needed;
  });
}

void DrainThread::on_unwound(const UnwoundSnapshot& unwound) {
  for (const auto& target : targets_) {
    if (target->target() == unwound.target && target->generation() == unwound.generation)
      target->on_unwound(unwound);
  }
}

void DrainThread::note_python(TargetId target, std::uint64_t generation, const std::string& summary) {
  for (const auto& held : targets_) {
    if (held->target() == target && held->generation() == generation) held->note_python(summary);
  }
}

bool DrainThread::in_scope(const DrainedTarget& target, const WindowScope& scope) const {
  return !target.ended() && (!scope.pid || *scope.pid == target.pid());
}

std::uint64_t DrainThread::open_window(WindowScope scope) {
  (void)drain_until(monotonic_ns() + kTurnNs);
  scope.t0_ns = monotonic_ns();
  scope.t1_ns = scope.t0_ns + scope.duration_ns;
  windows_.push_back(scope);
  if (scope.idle) {
    if (auto opened = timeline_.open_window(scope.id, scope.device, scope.t0_ns, scope.t1_ns); !opened)
      log_once(LogLevel::error, "open idle window", opened.error().message());
  }
  for (const auto& target : targets_) {
    if (in_scope(*target, scope)) open_in(*target, scope, false);
  }
  return scope.t0_ns;
}

void DrainThread::end_window(join::WindowId id, std::uint64_t t1_ns) {
  for (auto& scope : windows_) {
    if (scope.id == id) scope.t1_ns = std::min(scope.t1_ns, t1_ns);
  }
  for (const auto& target : targets_) target->end_window(id, t1_ns);
  timeline_.end_window(id, t1_ns);
}

DrainThread::Settled DrainThread::settle(join::WindowId id) {
  const std::uint64_t deadline_ns = monotonic_ns() + kSettleTurnNs;
  Settled settled;
  for (const auto& target : targets_) {
    // A pass that goes on saw less than what is there now: the one after it counts.
    const std::uint64_t wanted = target->passes() + (target->reading() ? 2 : 1);
    while (!target->ended() && target->passes() < wanted && monotonic_ns() < deadline_ns) {
      (void)target->drain(deadline_ns);
    }
    settled.read_all &= target->ended() || target->passes() >= wanted;
  }
  beat_ns_.store(monotonic_ns(), std::memory_order_relaxed);
  join::Settlement& sum = settled.open;
  for (const auto& target : targets_) {
    const auto one = target->settlement(id);
    sum.executions_without_launch += one.executions_without_launch;
    sum.executions_without_stack += one.executions_without_stack;
    sum.syncs_without_stack += one.syncs_without_stack;
    if (!target->ended()) sum.launches_pending += one.launches_pending;
  }
  return settled;
}

ClosedWindow DrainThread::close_window(join::WindowId id, std::uint64_t t1_ns, bool unsettled) {
  if (unsettled) ++gone_.windows_unsettled;
  ClosedWindow closed;
  closed.idle = close_idle(id, t1_ns);  // before its targets', which forget what they wait for
  for (const auto& target : targets_) {
    if (auto part = target->close_window(id, t1_ns)) closed.parts.push_back(std::move(*part));
  }
  if (closed.idle) spread_idle(*closed.idle, closed.parts);
  std::erase_if(windows_, [id](const WindowScope& scope) { return scope.id == id; });
  drop_unneeded();
  return closed;
}

std::optional<IdleData> DrainThread::close_idle(join::WindowId id, std::uint64_t t1_ns) {
  if (!timeline_.has_window(id)) return std::nullopt;
  timeline::IdleTimeline::Open open;
  for (const auto& target : targets_) target->add_open(t1_ns, open);
  auto idle = timeline_.close_window(id, t1_ns, open);
  return idle ? std::optional(std::move(*idle)) : std::nullopt;
}

// Rows are found by the session, whose stacks they have.
void DrainThread::spread_idle(IdleData& idle, std::vector<WindowPart>& parts) const {
  std::vector<IdleSample> spread;
  spread.reserve(idle.samples.size());
  for (const IdleSample& sample : idle.samples) {
    const auto of = [&](const auto& one) { return one->session() == sample.session; };
    const auto target = std::find_if(targets_.begin(), targets_.end(), of);
    const auto part = std::find_if(parts.begin(), parts.end(),
                                   [&](const WindowPart& one) { return one.session == sample.session; });
    if (target == targets_.end() || part == parts.end()) {
      spread.push_back(sample);
    } else {
      (*target)->spread(sample, part->data, spread);
    }
  }
  idle.samples = std::move(spread);
}

void DrainThread::abandon_window(join::WindowId id) {
  for (const auto& target : targets_) target->abandon_window(id);
  if (timeline_.has_window(id)) timeline_.abandon_window(id);
  std::erase_if(windows_, [id](const WindowScope& scope) { return scope.id == id; });
  drop_unneeded();
}

void DrainThread::drop_unneeded() {
  std::erase_if(targets_, [this](const std::unique_ptr<DrainedTarget>& target) {
    if (target->needed()) return false;
    add_to(gone_, *target, target->join_losses());  // nothing of it is pending any more
    modules_.forget(target->target());
    return true;
  });
  forget_left();
}

void DrainThread::add_to(DrainTotals& totals, DrainedTarget& target, const JoinCounters& join) {
  add_words(totals.shim, target.shim_counters());
  totals.shim.launching_threads = totals.shim.sample_interval = totals.shim.last_tick_ns = 0;
  add_words(totals.join, join);
  add_words(totals.collect, target.collect_counts());
  totals.gpu_ns += target.gpu_ns();
  totals.snapshots_dropped += target.snapshots_dropped();
  totals.counters_implausible += target.counters_implausible();
  add_words(totals.python, target.python_totals());
}

DrainTotals DrainThread::totals() {
  DrainTotals sum = gone_;
  for (const auto& target : targets_) add_to(sum, *target, target->join_counters());
  sum.clock_steps = clock_watch_.look();
  sum.modules_evicted = modules_.counts().evicted;
  sum.idle = timeline_.counters();
  return sum;
}

DrainTotals DrainThread::losses() {
  DrainTotals sum = gone_;
  for (const auto& target : targets_) add_to(sum, *target, target->join_losses());
  sum.clock_steps = clock_watch_.look();
  sum.modules_evicted = modules_.counts().evicted;
  sum.idle = timeline_.counters();
  return sum;
}

profile::AnomalyCounts anomaly_counts(const DrainTotals& totals) {
  profile::AnomalyCounts counts;
  counts.join = totals.join;
  counts.shim = totals.shim;
  counts.records_missing = totals.collect.records_missing;
  counts.records_bad = totals.collect.events.malformed + totals.collect.stacks.malformed;
  counts.records_skipped = totals.collect.events.unknown_records + totals.collect.stacks.unknown_records;
  counts.ring_resets = totals.collect.ring_resets;
  counts.module_slots_bad = totals.collect.bad_slots;
  counts.counters_implausible = totals.counters_implausible;
  counts.snapshots_dropped_sidecar = totals.snapshots_dropped;
  counts.modules_evicted = totals.modules_evicted;
  counts.clock_steps = totals.clock_steps;
  counts.windows_unsettled = totals.windows_unsettled;
  counts.python_runs_unplaced = totals.python.runs_unplaced;
  counts.python_codes_refused = totals.python.codes_refused;
  counts.idle = totals.idle;
  return counts;
}

}  // namespace pillion::pipeline
