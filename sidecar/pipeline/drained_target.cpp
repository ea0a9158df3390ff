// SPDX-License-Identifier: Apache-2.0
#include "pipeline/drained_target.h"

#include <array>
#include <bit>
#include <optional>
#include <utility>

#include "base/clock.h"
#include "base/log.h"

namespace pillion::pipeline {
namespace {

// All fields of pillion_counters are totals of the same type but the few that say how things stand.
pillion_counters since(const pillion_counters& end, const pillion_counters& begin) {
  using Fields = std::array<std::uint64_t, sizeof(pillion_counters) / sizeof(std::uint64_t)>;
  auto difference = std::bit_cast<Fields>(end);
  const auto from = std::bit_cast<Fields>(begin);
  for (std::size_t i = 0; i < difference.size(); ++i) difference[i] -= from[i];
  auto result = std::bit_cast<pillion_counters>(difference);
  result.launching_threads = end.launching_threads;
  result.sample_interval = end.sample_interval;
  result.last_tick_ns = end.last_tick_ns;
  // A module comes once, often before the window that its kernels run in.
  result.modules_stored = end.modules_stored;
  return result;
}

}  // namespace

DrainedTarget::DrainedTarget(ArmedTarget armed, SessionId session, collect::ModuleStore& modules,
                             UnwindThread& unwinder, timeline::IdleTimeline& timeline)
    : armed_(std::move(armed)),
      session_(session),
      timeline_(timeline),
      modules_(modules),
      unwinder_(unwinder),
      collector_(armed_.target, std::exchange(armed_.rings, {}), modules),
      joiner_(armed_.target) {
  joiner_.on_session(armed_.armed.armed_ns);
  joiner_.observe(this);
  timeline_.add_session(session_, armed_.pid);
}

bool DrainedTarget::drain(std::uint64_t deadline_ns) {
  if (collector_.look()) joiner_.on_drain_cycle(monotonic_ns());
  const auto outcome = collector_.deliver(*this, deadline_ns);
  if (outcome.finished) ++passes_;
  return outcome.again();
}

void DrainedTarget::on_execution(const RawExecution& execution) {
  if (execution.end_ns > execution.start_ns && execution.start_ns != 0) {
    gpu_ns_ += execution.end_ns - execution.start_ns;
  }
  note_used(execution.device);
  joiner_.on_execution(execution);
}

void DrainedTarget::on_device(RawDevice device) {
  timeline_.on_device(session_, device);
  joiner_.on_device(std::move(device));
}

// A shim before 1.4 tells of no contexts.
void DrainedTarget::note_used(std::uint32_t device) {
  const std::uint64_t bit = device < 64 ? std::uint64_t{1} << device : 0;
  if ((devices_used_ & bit) != 0) return;
  devices_used_ |= bit;
  if (bit != 0) timeline_.on_context(session_, device);
}

namespace {

// Nothing where the stamps cannot be believed.
std::optional<timeline::Ran> ran_of(const join::Settled& settled) {
  if (settled.stamp_fault != nullptr) return std::nullopt;
  return timeline::Ran{settled.sample, settled.context_key, settled.end_ns - settled.sample.gpu_ns,
                       settled.end_ns, settled.launched_ns, settled.other_device};
}

}  // namespace

void DrainedTarget::on_settled(const join::Settled& settled) {
  if (!timeline_.has_windows()) return;
  if (const auto ran = ran_of(settled)) timeline_.on_execution(session_, *ran);
}

void DrainedTarget::add_open(std::uint64_t t1_ns, timeline::IdleTimeline::Open& open) const {
  joiner_.visit_waiting([&](const join::Settled& settled) {
    if (auto ran = ran_of(settled)) open.executions.emplace_back(session_, std::move(*ran));
  });
  if (const auto first = joiner_.first_pending(t1_ns))
    open.pending[session_] = {first->sample, first->context_key, 0, 0, first->launched_ns, 0};
}

void DrainedTarget::spread(const IdleSample& sample, WindowData& data, std::vector<IdleSample>& out) const {
  joiner_.spread(sample, out);
  if (sample.launch.tid != 0) joiner_.describe_thread(sample.launch.tid, data);
}

void DrainedTarget::on_snapshot(RawSnapshot snapshot) {
  const auto correlation = snapshot.correlation;
  const auto context_key = snapshot.context_key;
  if (unwinder_.submit({armed_.target, generation(), std::move(snapshot), stacks_})) return;
  ++snapshots_dropped_;
  joiner_.on_stack(correlation, context_key, 0, StackEnding::faulted);
}

void DrainedTarget::on_unwound(const UnwoundSnapshot& unwound) {
  joiner_.on_stack(unwound.correlation, unwound.context_key, unwound.stack, unwound.ending);
  python_.frames += unwound.python.frames;
  python_.runs += unwound.python.entries;
  python_.runs_unplaced += unwound.python.unplaced;
  python_.evals_left += unwound.python.evals_left;
}

PythonTotals DrainedTarget::python_totals() const {
  PythonTotals totals = python_;
  totals.codes_refused = codes_->refused();
  return totals;
}

void DrainedTarget::open_window(join::WindowId id, join::WindowFilter filter, std::uint64_t t0_ns,
                                std::uint64_t t1_ns, bool from_arming) {
  if (auto opened = joiner_.open_window(id, filter, t0_ns, t1_ns); !opened) {
    log_once(LogLevel::error, "open window", opened.error().message());
    return;
  }
  Totals begin = from_arming ? Totals{} : totals();
  begin.modules_evicted = modules_.counts().evicted;  // of all targets
  at_open_[id] = begin;
}

Result<WindowPart> DrainedTarget::close_window(join::WindowId id, std::uint64_t t1_ns) {
  auto data = joiner_.close_window(id, t1_ns);
  const auto begin = at_open_.extract(id);
  if (!data) return tl::make_unexpected(data.error());
  return WindowPart{armed_.target, session_,   armed_.pid,
                    armed_.comm,   armed_.exe, std::move(*data),
                    stacks_,       codes_,     quality_since(begin.empty() ? Totals{} : begin.mapped())};
}

void DrainedTarget::abandon_window(join::WindowId id) {
  joiner_.abandon_window(id);
  at_open_.erase(id);
}

void DrainedTarget::end(std::string why) {
  while (drain(collect::Collector::kNoDeadline)) {
  }
  joiner_.on_session_end(monotonic_ns());
  // Others may be armed in its place while its windows are still open.
  collector_.release();
  ended_ = true;
  ended_why_ = std::move(why);
}

DrainedTarget::Totals DrainedTarget::totals() {
  return {
      collector_.shim_counters().read(), collector_.counts(), snapshots_dropped_, modules_.counts().evicted,
      collector_.counters_implausible(), python_totals()};
}

profile::TargetQuality DrainedTarget::quality_since(const Totals& begin) {
  const Totals end = totals();
  profile::TargetQuality quality;
  quality.counters = since(end.shim, begin.shim);
  quality.driver_version = armed_.armed.driver_version;
  quality.cupti_version = armed_.armed.cupti_version;
  quality.cupti_path = armed_.armed.cupti_path;
  quality.executions_before = begin.shim.executions;
  quality.executions_lost = end.shim.cupti_dropped + end.shim.executions_dropped_busy +
                            end.shim.executions_dropped_full + end.collect.records_missing;
  quality.records_skipped = end.collect.events.unknown_records + end.collect.stacks.unknown_records -
                            begin.collect.events.unknown_records - begin.collect.stacks.unknown_records;
  quality.records_bad = end.collect.events.malformed + end.collect.stacks.malformed -
                        begin.collect.events.malformed - begin.collect.stacks.malformed;
  quality.records_missing = end.collect.records_missing - begin.collect.records_missing;
  quality.ring_resets = end.collect.ring_resets - begin.collect.ring_resets;
  quality.module_slots_bad = end.collect.bad_slots - begin.collect.bad_slots;
  quality.counters_implausible = end.counters_implausible - begin.counters_implausible;
  quality.snapshots_dropped_sidecar = end.snapshots_dropped - begin.snapshots_dropped;
  quality.modules_evicted = end.modules_evicted - begin.modules_evicted;
  quality.python = armed_.python;
  quality.python_frames = end.python.frames - begin.python.frames;
  quality.python_runs = end.python.runs - begin.python.runs;
  quality.python_runs_unplaced = end.python.runs_unplaced - begin.python.runs_unplaced;
  quality.python_evals_left = end.python.evals_left - begin.python.evals_left;
  quality.python_codes_refused = end.python.codes_refused - begin.python.codes_refused;
  quality.ended_early = ended_why_;
  quality.settings = armed_.settings;
  quality.settings_asked = armed_.asked;
  return quality;
}

}  // namespace pillion::pipeline
