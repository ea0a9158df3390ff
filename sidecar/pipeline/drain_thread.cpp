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

// How long it goes on draining while rings are found more than a quarter full, before other work gets its turn: at full
// speed on a busy machine they always are, and a window has to begin and end all the same.
constexpr std::uint64_t kTurnNs = 20'000'000;

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

DrainThread::DrainThread(std::unique_ptr<EventLoop> loop, std::chrono::milliseconds drain_every, Bell& bell)
    : loop_(std::move(loop)), drain_every_(drain_every), bell_(bell) {}

void DrainThread::start(UnwindThread& unwinder) {
  unwinder_ = &unwinder;
  beat_ns_ = monotonic_ns();
  loop_->every(drain_every_, [this] { drain_all(); });
  thread_ = std::thread([this] { loop_->run(); });
}

void DrainThread::stop() {
  loop_->stop();
  if (thread_.joinable()) thread_.join();
}

void DrainThread::drain_all() {
  const std::uint64_t begin_ns = monotonic_ns();
  bool again = true;
  while (again && monotonic_ns() - begin_ns < kTurnNs) {
    again = false;
    for (const auto& target : targets_) {
      if (!target->ended()) again |= target->drain();
    }
  }
  beat_ns_.store(monotonic_ns(), std::memory_order_relaxed);
  if (again && !goes_on_) {
    goes_on_ = loop_->post([this] {
      goes_on_ = false;
      drain_all();
    });
  }
}

void DrainThread::add(ArmedTarget armed) {
  targets_.push_back(std::make_unique<DrainedTarget>(std::move(armed), modules_, *unwinder_));
  for (const auto& scope : windows_) {
    if (!in_scope(*targets_.back(), scope)) continue;
    targets_.back()->open_window(scope.id, {scope.device}, scope.t0_ns, scope.t1_ns);
  }
}

void DrainThread::end(TargetId target, std::uint64_t generation, std::string why) {
  for (const auto& held : targets_) {
    if (held->target() == target && held->generation() == generation && !held->ended())
      held->end(std::move(why));
  }
  drop_unneeded();
  bell_.ring();
}

void DrainThread::on_unwound(const UnwoundSnapshot& unwound) {
  for (const auto& target : targets_) {
    if (target->target() == unwound.target && target->generation() == unwound.generation)
      target->on_unwound(unwound);
  }
}

bool DrainThread::in_scope(const DrainedTarget& target, const WindowScope& scope) const {
  return !target.ended() && (!scope.pid || *scope.pid == target.pid());
}

void DrainThread::open_window(const WindowScope& scope) {
  windows_.push_back(scope);
  for (const auto& target : targets_) {
    if (in_scope(*target, scope)) target->open_window(scope.id, {scope.device}, scope.t0_ns, scope.t1_ns);
  }
}

void DrainThread::end_window(join::WindowId id, std::uint64_t t1_ns) {
  for (auto& scope : windows_) {
    if (scope.id == id) scope.t1_ns = std::min(scope.t1_ns, t1_ns);
  }
  for (const auto& target : targets_) target->end_window(id, t1_ns);
}

join::Settlement DrainThread::settle(join::WindowId id) {
  drain_all();
  join::Settlement sum;
  for (const auto& target : targets_) {
    const auto one = target->settlement(id);
    sum.executions_without_launch += one.executions_without_launch;
    sum.executions_without_stack += one.executions_without_stack;
    if (!target->ended()) sum.launches_pending += one.launches_pending;
  }
  return sum;
}

std::vector<WindowPart> DrainThread::close_window(join::WindowId id, std::uint64_t t1_ns) {
  std::vector<WindowPart> parts;
  for (const auto& target : targets_) {
    if (auto part = target->close_window(id, t1_ns)) parts.push_back(std::move(*part));
  }
  std::erase_if(windows_, [id](const WindowScope& scope) { return scope.id == id; });
  drop_unneeded();
  return parts;
}

void DrainThread::abandon_window(join::WindowId id) {
  for (const auto& target : targets_) target->abandon_window(id);
  std::erase_if(windows_, [id](const WindowScope& scope) { return scope.id == id; });
  drop_unneeded();
}

void DrainThread::drop_unneeded() {
  std::erase_if(targets_, [this](const std::unique_ptr<DrainedTarget>& target) {
    if (target->needed()) return false;
    add_to(gone_, *target);
    modules_.forget(target->target());
    return true;
  });
}

void DrainThread::add_to(DrainTotals& totals, DrainedTarget& target) {
  add_words(totals.shim, target.shim_counters());
  totals.shim.launching_threads = totals.shim.sample_interval = totals.shim.last_tick_ns = 0;
  add_words(totals.join, target.join_counters());
  add_words(totals.collect, target.collect_counts());
  totals.gpu_ns += target.gpu_ns();
}

DrainTotals DrainThread::totals() {
  DrainTotals sum = gone_;
  for (const auto& target : targets_) add_to(sum, *target);
  return sum;
}

}  // namespace pillion::pipeline
