// SPDX-License-Identifier: Apache-2.0
// The half of the Joiner that decides what an execution is worth and where it counts.
#include <algorithm>
#include <string>
#include <utility>

#include "join/joiner.h"

namespace pillion::join {
namespace {

// settlement() counts no further, and looks at no more: whoever asks wants to know whether there are any.
constexpr std::uint64_t kPendingCounted = 1'000;
constexpr std::size_t kLookedAtMax = 400'000;

// The counter of what is wrong with the stamps; nullptr when nothing is.
std::uint64_t JoinCounters::*stamp_fault(const Execution& execution, std::uint64_t armed_ns,
                                         const std::uint64_t* launched_ns, const Limits& limits) {
  if (execution.start_ns == 0 || execution.end_ns == 0) return &JoinCounters::invalid_zero;
  if (execution.end_ns < execution.start_ns) return &JoinCounters::invalid_reversed;
  if (execution.arrived_ns != 0 && execution.end_ns > execution.arrived_ns + limits.arrival_tolerance_ns) {
    return &JoinCounters::invalid_outside_session;
  }
  if (armed_ns > limits.session_tolerance_ns && execution.end_ns < armed_ns - limits.session_tolerance_ns) {
    return &JoinCounters::invalid_outside_session;
  }
  if (launched_ns != nullptr && *launched_ns > limits.clock_tolerance_ns &&
      execution.start_ns < *launched_ns - limits.clock_tolerance_ns) {
    return &JoinCounters::invalid_before_launch;
  }
  return nullptr;
}

}  // namespace

void Joiner::attribute(const Launch& launch, Settled& settled) {
  settled.launched_ns = launch.time_ns;
  settled.context_key = launch.context_key;
  settled.sample.tid = launch.tid;
  settled.sample.cbid = launch.cbid;
  settled.sample.stack = launch.stack;
  settled.sample.attribution = launch.stack != 0 ? Attribution::exact : Attribution::context;
}

Settled Joiner::judge(const Execution& execution, const Launch* launch, Key key) const {
  Settled settled;
  JoinedSample& sample = settled.sample;
  sample.device = execution.device;
  sample.context = execution.context;
  sample.stream = execution.stream;
  sample.name = execution.name;
  sample.copy_kind = execution.copy_kind;
  sample.kind = execution.kind;
  sample.graph = execution.graph;
  sample.count = 1;
  sample.bytes = execution.bytes;
  settled.other_device = execution.other_device;
  if (launch != nullptr) {
    attribute(*launch, settled);
  } else {
    sample.attribution = key < first_ ? Attribution::before_session : Attribution::launch_lost;
  }
  settled.stamp_fault =
      stamp_fault(execution, armed_ns_, launch != nullptr ? &launch->time_ns : nullptr, limits_);
  if (settled.stamp_fault == nullptr) {
    settled.end_ns = execution.end_ns;
    settled.when_ns = execution.end_ns;
    sample.gpu_ns = execution.end_ns - execution.start_ns;
    settled.queue_known = launch != nullptr;
    if (launch != nullptr && execution.start_ns > launch->time_ns) {
      sample.queue_ns = execution.start_ns - launch->time_ns;
    }
  } else {
    settled.when_ns = launch != nullptr ? launch->time_ns : execution.arrived_ns;
  }
  return settled;
}

void Joiner::settle(const Execution& execution, Launch* launch, Key key) {
  Settled settled = judge(execution, launch, key);
  if (launch != nullptr && launch->returned_ns != 0 && !launch->call_told) {
    tell_call(settled, *launch);
    if (const auto call = waiting_copy(*launch, &execution)) {
      add_sync(*call);
      tell_observer(*call, call->end_ns);
    }
  }
  ++counters_.executions;
  switch (settled.sample.attribution) {
    case Attribution::before_session:
      ++counters_.launched_before;
      break;
    case Attribution::launch_lost:
      ++counters_.launch_lost;
      break;
    default:
      ++counters_.joined;
  }
  if (settled.stamp_fault != nullptr) ++(counters_.*settled.stamp_fault);
  for (Window& window : windows_) window.add(settled, limits_);
  if (observer_ != nullptr) observer_->on_settled(settled);
}

Window* Joiner::window(WindowId id) {
  const auto found =
      std::find_if(windows_.begin(), windows_.end(), [&](const Window& w) { return w.id() == id; });
  return found == windows_.end() ? nullptr : &*found;
}

const Window* Joiner::window(WindowId id) const { return const_cast<Joiner*>(this)->window(id); }

Result<void> Joiner::open_window(WindowId id, WindowFilter filter, std::uint64_t t0_ns, std::uint64_t t1_ns) {
  const std::string object = std::to_string(id);
  if (window(id) != nullptr) return fail("open window", object, "this id is open");
  if (windows_.size() >= limits_.windows_max) return fail("open window", object, "too many are open");
  if (t1_ns <= t0_ns) return fail("open window", object, "it ends before it begins");
  windows_.emplace_back(id, filter, t0_ns, t1_ns, counters_);
  return {};
}

void Joiner::end_window(WindowId id, std::uint64_t t1_ns) {
  if (Window* ending = window(id)) ending->end_at(t1_ns);
}

void Joiner::abandon_window(WindowId id) {
  std::erase_if(windows_, [&](const Window& w) { return w.id() == id; });
}

Settlement Joiner::settlement(WindowId id) const {
  Settlement out;
  const Window* asked = window(id);
  if (asked == nullptr) return out;
  held_.for_each([&](Key key, const Held& held) {
    pool_.for_each(held.chain, [&](const Execution& execution) {
      if (asked->covers(judge(execution, nullptr, key).when_ns)) ++out.executions_without_launch;
    });
  });
  for (const Timed& waits : stack_order_) {
    const Launch* launch = launches_.find(waits.key);
    if (launch == nullptr) continue;
    pool_.for_each(launch->waiting, [&](const Execution& execution) {
      if (asked->covers(judge(execution, launch, waits.key).when_ns)) ++out.executions_without_stack;
    });
  }
  for (const Timed& waits : return_order_) {
    const Launch* launch = launches_.find(waits.key);
    if (launch == nullptr || launch->stack_state == StackState::waiting) continue;  // those are above
    pool_.for_each(launch->waiting, [&](const Execution& execution) {
      if (asked->covers(judge(execution, launch, waits.key).when_ns)) ++out.executions_without_stack;
    });
  }
  syncs_.for_each([&](const SyncInterval& call) {
    if (call.end_ns > asked->t0_ns() && call.start_ns < asked->t1_ns()) ++out.syncs_without_stack;
  });
  // Oldest first. The whole of a full table takes too long to walk each time that a window looks for its end.
  std::size_t looked_at = 0;
  for (const Key key : order_) {
    if (out.launches_pending == kPendingCounted || ++looked_at > kLookedAtMax) break;
    const Launch* launch = launches_.find(key);
    if (launch != nullptr && launch->executions == 0 && launch->time_ns < asked->t1_ns())
      ++out.launches_pending;
  }
  return out;
}

Result<WindowData> Joiner::close_window(WindowId id, std::uint64_t t1_ns) {
  Window* closing = window(id);
  if (closing == nullptr) return fail("close window", std::to_string(id), "no such window is open");
  closing->end_at(t1_ns);
  held_.for_each([&](Key key, const Held& held) {
    pool_.for_each(held.chain, [&](const Execution& execution) {
      closing->add(judge(execution, nullptr, key), limits_);
    });
  });
  launches_.for_each([&](Key key, const Launch& launch) {
    Launch told = launch;  // what is decided here is for this window alone
    pool_.for_each(launch.waiting, [&](const Execution& execution) {
      Settled settled = judge(execution, &launch, key);
      if (told.returned_ns != 0 && !told.call_told) tell_call(settled, told);
      closing->add(settled, limits_);
    });
    if (launch.executions != 0) return;
    if (closing->covers(launch.time_ns)) ++closing->counters().pending;
    if (launch.time_ns < closing->t0_ns()) ++closing->counters().pending_earlier;
  });
  close_open_calls(*closing);
  WindowData data = closing->finish(context_stacks_, counters_, limits_.cells_max);
  data.target = target_;
  describe(data);
  abandon_window(id);
  return data;
}

// Names, threads and devices that the samples speak of.
void Joiner::describe(WindowData& data) const {
  const auto name = [&](std::uint32_t id) {
    if (id == 0 || data.names.contains(id)) return;
    const auto found = names_.find(id);
    if (found != names_.end()) data.names.emplace(id, found->second);
  };
  const auto thread = [&](std::uint32_t tid) {
    if (tid == 0 || data.threads.contains(tid)) return;
    const auto found = threads_.find(tid);
    if (found != threads_.end()) data.threads.emplace(tid, found->second);
  };
  for (const JoinedSample& sample : data.samples) {
    if (sample.kind == ExecutionKind::kernel) name(sample.name);
    thread(sample.tid);
  }
  for (const LatencyRow& row : data.latencies) name(row.name);
  for (const SyncSample& sync : data.syncs) thread(sync.tid);
  data.devices = devices_;
}

JoinCounters Joiner::counters() const {
  JoinCounters out = counters_;
  launches_.for_each([&](Key, const Launch& launch) { out.pending += launch.executions == 0 ? 1 : 0; });
  return out;
}

}  // namespace pillion::join
