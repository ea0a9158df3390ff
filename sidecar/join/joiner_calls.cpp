// SPDX-License-Identifier: Apache-2.0
// The part of the Joiner that knows how long calls took: launches, and those that wait for the GPU.
#include <algorithm>
#include <utility>

#include "join/joiner.h"

namespace pillion::join {
namespace {

// CUpti_ActivityMemcpyKind: HtoD, DtoH, HtoA, AtoH.
bool between_host_and_device(std::uint32_t copy_kind) { return copy_kind >= 1 && copy_kind <= 4; }

}  // namespace

void Joiner::on_returned(const RawReturned& raw) {
  const Key key = extend(raw.correlation);
  if (raw.sync && syncs_.has(key)) {
    if (const SyncInterval* open = syncs_.open(key))
      tell_observer(*open, std::max(raw.time_ns, open->start_ns));
    if (const auto call = syncs_.returned(key, raw.time_ns)) add_sync(*call);
    return;
  }
  Launch* launch = raw.sync ? nullptr : launches_.find(key);
  if (launch == nullptr) {
    early(key)->returned_ns = std::max<std::uint64_t>(raw.time_ns, 1);
    return;
  }
  if (launch->returned_ns != 0) return;
  launch->returned_ns = std::max(raw.time_ns, launch->time_ns);
  if (!std::exchange(launch->return_due, false)) return;
  settle_waiting(key, *launch);
}

void Joiner::on_sync(const RawSync& raw) {
  const Key key = extend_launch(raw.correlation, raw.time_ns);
  SyncCalls::Begun begun;
  begun.stack_deadline_ns = now_ns_ + limits_.stack_wait_ns;
  begun.cycle = cycle_;
  if (const Early* found = early_.find(key)) {
    if (found->has_stack) begun.stack = found->stack;
    if (found->returned_ns != 0) begun.returned_ns = std::max(found->returned_ns, raw.time_ns);
    early_.erase(key);
  }
  if (!syncs_.begin(key, raw, begun)) {
    ++counters_.launches_duplicate;
    return;
  }
  counters_.syncs_lost = syncs_.lost();
  if (begun.returned_ns != 0)
    tell_observer({raw.tid, raw.cbid, raw.context, 0, 0, raw.time_ns, 0}, begun.returned_ns);
  if (const auto call = syncs_.complete(key)) add_sync(*call);
}

// No return comes any more.
void Joiner::on_session_end(std::uint64_t now_ns) {
  ended_ns_ = now_ns;
  while (!return_order_.empty()) {
    const Key key = return_order_.front().key;
    return_order_.pop_front();
    give_up_return(key);
  }
}

// Executions that waited for their launch's stack or return, once neither is missing any more.
void Joiner::settle_waiting(Key key, Launch& launch) {
  if (launch.waits()) return;
  pool_.drain(launch.waiting, [&](const Execution& execution) { settle(execution, &launch, key); });
  release_if_done(key, launch);
}

void Joiner::await_return(Key key, const Launch& launch) {
  if (launch.return_due) return_order_.push_back({key, cycle_});
}

void Joiner::give_up_return(Key key) {
  Launch* launch = launches_.find(key);
  if (launch == nullptr || !launch->return_due) return;
  ++counters_.call_durations_missing;
  launch->return_due = false;
  settle_waiting(key, *launch);
}

void Joiner::on_drain_cycle_of_calls() {
  while (!return_order_.empty() && return_order_.front().at + limits_.hold_drains < cycle_) {
    const Key key = return_order_.front().key;
    return_order_.pop_front();
    give_up_return(key);
  }
  if (cycle_ > limits_.hold_drains) syncs_.forget_superseded(cycle_ - limits_.hold_drains);
  counters_.syncs_lost = syncs_.lost();
  counters_.stacks_given_up +=
      syncs_.give_up_stacks(now_ns_, [&](const SyncInterval& call) { add_sync(call); });
}

// The duration of a call stands once in a window, in the sample of the execution that was settled first.
void Joiner::tell_call(Settled& settled, Launch& launch) {
  launch.call_told = true;
  settled.sample.launch_calls = 1;
  settled.sample.launch_ns = launch.returned_ns - launch.time_ns;
}

// The call of a copy that waited: by what it is, or because the copy was over when it returned.
// `execution`: the copy, where it has come.
std::optional<SyncInterval> Joiner::waiting_copy(const Launch& launch, const Execution* execution) const {
  if (launch.kind != ExecutionKind::copy) return std::nullopt;
  bool waited = copy_waits(launch.cbid);
  if (execution != nullptr) {
    const bool covered = execution->end_ns > execution->start_ns && execution->start_ns >= launch.time_ns &&
                         launch.returned_ns != 0 && execution->end_ns <= launch.returned_ns;
    waited = covered || (waited && between_host_and_device(execution->copy_kind));
  }
  if (!waited) return std::nullopt;
  return SyncInterval{launch.tid,        launch.cbid,        execution != nullptr ? execution->context : 0,
                      launch.stack,      launch.context_key, launch.time_ns,
                      launch.returned_ns};
}

void Joiner::add_sync(const SyncInterval& call) {
  for (Window& window : windows_) window.add_sync(call, limits_);
}

void Joiner::tell_observer(const SyncInterval& call, std::uint64_t end_ns) const {
  if (observer_ != nullptr) observer_->on_host_sync({call.tid, call.start_ns, end_ns});
}

// What has not returned, or waits for its stack, or is a copy whose execution has not come.
void Joiner::close_open_calls(Window& closing) const {
  const auto add = [&](SyncInterval call) {
    if (call.end_ns == 0) call.end_ns = ended_ns_;
    closing.add_sync(call, limits_);
  };
  syncs_.for_each(add);
  launches_.for_each([&](Key, const Launch& launch) {
    if (launch.call_told || (launch.executions != 0 && launch.waiting == ExecutionPool::kEmpty)) return;
    const Execution* execution = nullptr;
    pool_.for_each(launch.waiting, [&](const Execution& one) { execution = &one; });
    if (auto call = waiting_copy(launch, execution)) add(*call);
  });
}

}  // namespace pillion::join
