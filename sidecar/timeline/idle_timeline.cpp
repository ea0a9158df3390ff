// SPDX-License-Identifier: Apache-2.0
#include "timeline/idle_timeline.h"

#include <algorithm>
#include <limits>

namespace pillion::timeline {

IdleTimeline::IdleTimeline(Limits limits)
    : limits_(limits), launches_(limits.launches_max), waits_(limits.syncs_max) {}

IdleTimeline::Log* IdleTimeline::log(const SessionDevice& device) {
  const auto found = logs_.find(device);
  if (found != logs_.end()) return &found->second;
  if (logs_.size() >= limits_.devices_max) return nullptr;
  return &logs_[device];
}

void IdleTimeline::add_session(SessionId session, std::uint32_t pid) { pids_[session] = pid; }

void IdleTimeline::on_context(SessionId session, std::uint32_t device) {
  if (Log* of = log({session, device})) of->used = true;
}

void IdleTimeline::on_device(SessionId session, const RawDevice& device) {
  Log* of = log({session, device.device});
  if (of != nullptr && device.uuid != Uuid{}) of->uuid = device.uuid;
}

void IdleTimeline::drop_session(SessionId session) {
  pids_.erase(session);
  std::erase_if(logs_, [&](const auto& one) {
    if (one.first.first != session) return false;
    intervals_ -= one.second.intervals.size();
    return true;
  });
}

Interval IdleTimeline::interval_of(SessionId session, const Ran& ran) {
  return {ran.start_ns, ran.end_ns, ran.launched_ns, launches_.number(session, ran.launch, ran.context_key),
          ran.launch.kind};
}

void IdleTimeline::on_execution(SessionId session, const Ran& ran) {
  const bool wanted = std::any_of(windows_.begin(), windows_.end(),
                                  [&](const IdleWindow& window) { return window.t0_ns() <= ran.end_ns; });
  if (!wanted) return;
  const Interval interval = interval_of(session, ran);
  add({session, ran.launch.device}, interval);
  if (ran.other_device != ran.launch.device) add({session, ran.other_device}, interval);
}

void IdleTimeline::add(const SessionDevice& device, const Interval& interval) {
  Log* of = log(device);
  if (of == nullptr) {
    ++counters_.executions_late;
    for (IdleWindow& window : windows_) ++window.counters().executions_late;
    return;
  }
  of->used = true;
  if (interval.start_ns < decided_ns_) count_late(device, *of, interval);
  of->intervals.push_back(interval);
  if (++intervals_ >= limits_.intervals_max) make_room();
}

void IdleTimeline::count_late(const SessionDevice& device, const Log& of, const Interval& interval) {
  bool late = false;
  for (IdleWindow& window : windows_) {
    if (!window.covers(device) || interval.end_ns <= window.t0_ns()) continue;
    if (interval.start_ns >= window.decided_ns(window.name_of(device, name_now(device, of)))) continue;
    ++window.counters().executions_late;
    late = true;
  }
  if (late) ++counters_.executions_late;
}

void IdleTimeline::on_host_sync(SessionId session, const HostSync& sync) {
  if (windows_.empty() || waits_.add(session, sync)) return;
  ++counters_.syncs_dropped;
  for (IdleWindow& window : windows_) ++window.counters().syncs_dropped;
}

// The same for every session that uses the device, as far as it is known.
std::string IdleTimeline::name_now(const SessionDevice& device, const Log& of) const {
  if (of.uuid) return {of.uuid->begin(), of.uuid->end()};
  const auto pid = pids_.find(device.first);
  return (pid == pids_.end() ? "session " + std::to_string(device.first)
                             : "process " + std::to_string(pid->second)) +
         " device " + std::to_string(device.second);
}

IdleTimeline::Members IdleTimeline::members_of(IdleWindow& window) {
  Members members;
  for (const auto& [device, of] : logs_) {
    if (of.used && window.covers(device))
      members[window.name_of(device, name_now(device, of))].push_back(device);
  }
  return members;
}

void IdleTimeline::gather(const std::vector<SessionDevice>& members, std::vector<Interval>& out) const {
  for (const SessionDevice& member : members) {
    const std::vector<Interval>& of = logs_.at(member).intervals;
    out.insert(out.end(), of.begin(), of.end());
  }
}

// Decides what is older than half of what there is.
void IdleTimeline::make_room() {
  std::vector<std::uint64_t> starts;
  starts.reserve(intervals_);
  for (const auto& [device, of] : logs_) {
    for (const Interval& interval : of.intervals) starts.push_back(interval.start_ns);
  }
  const auto middle = starts.begin() + static_cast<std::ptrdiff_t>(starts.size() / 2);
  std::nth_element(starts.begin(), middle, starts.end());
  const std::size_t enough = limits_.intervals_max / 4 * 3;
  decide_until(*middle, SweepEnd::open);
  // Copies without a kernel behind them, for which the gaps would have to wait.
  if (intervals_ > enough) decide_until(*middle, SweepEnd::cut);
  if (intervals_ > enough) decide_until(kNever, SweepEnd::cut);
  if (intervals_ <= enough) return;
  // All of them reach beyond the newest one's start: no device runs so many at once.
  counters_.executions_late += intervals_;
  for (IdleWindow& window : windows_) window.counters().executions_late += intervals_;
  forget_intervals();
}

void IdleTimeline::forget_intervals() {
  for (auto& [device, of] : logs_) of.intervals = {};
  intervals_ = 0;
}

void IdleTimeline::decide_until(std::uint64_t to_ns, SweepEnd end) {
  std::vector<Interval> sorted;
  for (IdleWindow& window : windows_) {
    const IdleCounters before = window.counters();
    for (const auto& [name, members] : members_of(window)) {
      sorted.clear();
      gather(members, sorted);
      std::sort(sorted.begin(), sorted.end(), timeline::before);
      // Not beyond what has come: the future is nobody's idle time.
      const std::uint64_t newest_ns = sorted.empty() ? 0 : sorted.back().start_ns;
      window.decide(name, sorted, std::min(to_ns, newest_ns), end, nullptr, members.front(), sources());
      decided_ns_ = std::max(decided_ns_, window.decided_ns(name));
    }
    count_merged(window, before);
  }
  forget_decided();
}

void IdleTimeline::forget_decided() {
  std::uint64_t oldest_ns = kNever;
  for (auto& [device, of] : logs_) {
    std::uint64_t needed_from_ns = kNever;
    for (IdleWindow& window : windows_) {
      if (!window.covers(device)) continue;
      needed_from_ns =
          std::min(needed_from_ns, window.decided_ns(window.name_of(device, name_now(device, of))));
    }
    oldest_ns = std::min(oldest_ns, needed_from_ns);
    intervals_ -= std::erase_if(of.intervals, [needed_from_ns](const Interval& interval) {
      return interval.end_ns < needed_from_ns;
    });
  }
  if (oldest_ns != kNever && oldest_ns > limits_.syncs_kept_ns)
    waits_.forget_before(oldest_ns - limits_.syncs_kept_ns);
}

IdleWindow* IdleTimeline::window(WindowId id) {
  const auto found =
      std::find_if(windows_.begin(), windows_.end(), [&](const IdleWindow& w) { return w.id() == id; });
  return found == windows_.end() ? nullptr : &*found;
}

bool IdleTimeline::has_window(WindowId id) const {
  return std::any_of(windows_.begin(), windows_.end(), [&](const IdleWindow& w) { return w.id() == id; });
}

Result<void> IdleTimeline::open_window(WindowId id, std::optional<std::uint32_t> device, std::uint64_t t0_ns,
                                       std::uint64_t t1_ns) {
  const std::string object = std::to_string(id);
  if (has_window(id)) return fail("open idle window", object, "this id is open");
  if (t1_ns <= t0_ns) return fail("open idle window", object, "it ends before it begins");
  windows_.emplace_back(id, device, t0_ns, t1_ns);
  return {};
}

void IdleTimeline::enter_window(WindowId id, SessionId session) {
  if (IdleWindow* entered = window(id)) entered->enter(session);
}

void IdleTimeline::end_window(WindowId id, std::uint64_t t1_ns) {
  if (IdleWindow* ending = window(id)) ending->end_at(t1_ns);
}

void IdleTimeline::abandon_window(WindowId id) {
  std::erase_if(windows_, [&](const IdleWindow& w) { return w.id() == id; });
  if (!windows_.empty()) {
    forget_decided();
    return;
  }
  forget_intervals();
  decided_ns_ = 0;
  launches_.clear();
  waits_.clear();
}

Result<IdleData> IdleTimeline::close_window(WindowId id, std::uint64_t t1_ns, const Open& open) {
  IdleWindow* closing = window(id);
  if (closing == nullptr) return fail("close idle window", std::to_string(id), "no such window is open");
  closing->end_at(t1_ns);
  for (const auto& [session, ran] : open.executions) {
    if (Log* of = log({session, ran.launch.device})) of->used = true;
  }
  const IdleCounters before = closing->counters();
  const Members members = members_of(*closing);
  std::vector<Interval> sorted;
  for (const auto& [name, devices] : members) {
    sorted.clear();
    gather(devices, sorted);
    for (const SessionDevice& device : devices) {
      for (const auto& [session, ran] : open.executions) {
        const bool on_it = ran.launch.device == device.second || ran.other_device == device.second;
        if (session == device.first && on_it) sorted.push_back(interval_of(session, ran));
      }
    }
    std::sort(sorted.begin(), sorted.end(), timeline::before);
    const auto pending = pending_on(devices, open);
    closing->decide(name, sorted, closing->t1_ns(), SweepEnd::window, pending ? &*pending : nullptr,
                    devices.front(), sources());
  }
  count_merged(*closing, before);
  IdleData data = closing->finish(launches_, members);
  abandon_window(id);
  return data;
}

// The first launch that may be running on a device, whoever of those that use it made it.
std::optional<Interval> IdleTimeline::pending_on(const std::vector<SessionDevice>& members,
                                                 const Open& open) {
  std::optional<Interval> first;
  for (const auto& [session, device] : members) {
    const auto found = open.pending.find(session);
    if (found == open.pending.end()) continue;
    const Ran& launched = found->second;
    if (first && first->launched_ns <= launched.launched_ns) continue;
    first = Interval{0, 0, launched.launched_ns,
                     launches_.pending(session, device, launched.launch, launched.context_key)};
  }
  return first;
}

void IdleTimeline::count_merged(const IdleWindow& window, const IdleCounters& before) {
  counters_.gaps_merged += window.counters().gaps_merged - before.gaps_merged;
}

}  // namespace pillion::timeline
