// SPDX-License-Identifier: Apache-2.0
#include "join/joiner.h"

#include <algorithm>
#include <utility>

namespace pillion::join {
namespace {

constexpr std::uint32_t kCooperativeMultiDevice =
    480;  // cuLaunchCooperativeKernelMultiDevice: a kernel per device

// A graph has an execution per node, a batch copy one per piece, and a copy between devices may be cut.
bool may_have_several(const RawLaunch& launch) {
  return launch.kind == LaunchKind::graph || launch.kind == LaunchKind::copy ||
         launch.cbid == kCooperativeMultiDevice;
}

std::uint32_t other_end(const RawExecution& raw) {
  if (raw.kind != ExecutionKind::copy) return raw.device;
  return raw.source_device != raw.device ? raw.source_device : raw.destination_device;
}

}  // namespace

Joiner::Joiner(TargetId target, Limits limits)
    : target_(target),
      limits_(limits),
      context_stacks_(limits.context_keys_max, limits.stacks_per_key_max),
      syncs_(limits.syncs_max) {}

void Joiner::on_session(std::uint64_t armed_ns) {
  armed_ns_ = armed_ns;
  now_ns_ = armed_ns;
  newest_ = 0;
  newest_launch_ns_ = 0;
  first_ = std::numeric_limits<Key>::max();
  launches_.clear();
  order_.clear();
  kept_.clear();
  stack_order_.clear();
  return_order_.clear();
  syncs_.clear();
  ended_ns_ = 0;
  held_.clear();
  held_order_.clear();
  early_.clear();
  early_order_.clear();
  pool_.clear();
  context_stacks_.clear();
  names_.clear();
  names_bytes_ = 0;
  threads_.clear();
  devices_.clear();
}

// Serial number arithmetic: of all values with these low 32 bits, the one nearest to the newest seen.
Joiner::Key Joiner::nearest(std::uint32_t correlation) {
  if (newest_ == 0) newest_ = kEpoch + correlation;
  const auto distance = static_cast<std::int32_t>(correlation - static_cast<std::uint32_t>(newest_));
  return newest_ + static_cast<Key>(static_cast<std::int64_t>(distance));
}

// Launches say how far the ids have come.
Joiner::Key Joiner::extend_launch(std::uint32_t correlation, std::uint64_t time_ns) {
  Key key = nearest(correlation);
  const bool first = newest_launch_ns_ == 0;
  if (!first && key < newest_ && newest_ - key > kEpoch / 4 &&
      time_ns > newest_launch_ns_ + limits_.ids_wrapped_unseen_ns) {
    key += kEpoch;
  }
  newest_ = first ? key : std::max(newest_, key);
  newest_launch_ns_ = std::max(newest_launch_ns_, time_ns);
  return key;
}

// What follows a launch moves them by little; one far ahead is of a launch so old that its id is half a round
// behind, or of none.
Joiner::Key Joiner::extend(std::uint32_t correlation) {
  const Key key = nearest(correlation);
  if (key <= newest_) return key;
  if (key - newest_ > limits_.lead_max) return launches_.find(key - kEpoch) != nullptr ? key - kEpoch : key;
  newest_ = key;
  return key;
}

void Joiner::count_launch(std::uint64_t time_ns, std::uint64_t JoinCounters::*field) {
  ++(counters_.*field);
  for (Window& window : windows_) {
    if (window.covers(time_ns)) ++(window.counters().*field);
  }
}

void Joiner::on_launch(const RawLaunch& raw) {
  if (raw.kind == LaunchKind::host) {  // never has an execution on the GPU
    ++counters_.host_functions;
    return;
  }
  const Key key = extend_launch(raw.correlation, raw.time_ns);
  if (launches_.find(key) != nullptr) {
    ++counters_.launches_duplicate;
    return;
  }
  count_launch(raw.time_ns, &JoinCounters::launches);
  if (raw.time_ns >= armed_ns_) first_ = std::min(first_, key);
  StackState state = raw.has_snapshot ? StackState::waiting : StackState::none;
  StackId stack = 0;
  std::uint64_t returned_ns = 0;
  if (const Early* found = early_.find(key)) {
    const Early came = *found;
    early_.erase(key);
    if (came.failed && held_.find(key) == nullptr) {
      count_launch(raw.time_ns,
                   came.captured ? &JoinCounters::launches_captured : &JoinCounters::launches_failed);
      return;
    }
    if (came.has_stack) {
      state = StackState::known;
      stack = came.stack;
    }
    returned_ns = came.returned_ns;
  }
  make_room();
  Launch& launch = *launches_.insert(key).first;
  launch = {raw.time_ns, raw.context_key,       raw.tid, raw.cbid, 0, ExecutionPool::kEmpty, stack,
            state,       may_have_several(raw), false};
  launch.return_due = raw.returns && returned_ns == 0;
  launch.kind = raw.kind == LaunchKind::copy ? ExecutionKind::copy : ExecutionKind::kernel;
  launch.returned_ns = returned_ns == 0 ? 0 : std::max(returned_ns, raw.time_ns);
  order_.push_back(key);
  if (order_.size() > 2 * launches_.size() + 4096) compact_order();
  if (state == StackState::waiting) stack_order_.push_back({key, now_ns_ + limits_.stack_wait_ns});
  adopt_held(key, launch);
}

void Joiner::adopt_held(Key key, Launch& launch) {
  Held* held = held_.find(key);
  if (held == nullptr) return;
  ExecutionPool::Chain chain = held->chain;
  held_.erase(key);
  if (launch.waits()) {
    pool_.for_each(chain, [&](const Execution&) { ++launch.executions; });
    launch.waiting = chain;
    await_return(key, launch);
    return;
  }
  pool_.drain(chain, [&](const Execution& execution) {
    ++launch.executions;
    settle(execution, &launch, key);
  });
  release_if_done(key, launch);
}

void Joiner::on_launch_failed(const RawLaunchFailed& raw) {
  const Key key = extend(raw.correlation);
  const Launch* launch = launches_.find(key);
  if (launch == nullptr) {
    Early* came = early(key);
    came->failed = true;
    came->captured = raw.captured();
    return;
  }
  if (launch->executions > 0) return;  // it ran: whatever the call returned, the time was spent
  count_launch(launch->time_ns,
               raw.captured() ? &JoinCounters::launches_captured : &JoinCounters::launches_failed);
  launches_.erase(key);
}

void Joiner::on_execution(const RawExecution& raw) {
  Execution execution{raw.start_ns, raw.end_ns, raw.bytes,     now_ns_,        raw.device, raw.context,
                      raw.stream,   raw.name,   raw.copy_kind, other_end(raw), raw.kind,   raw.graph != 0};
  const Key key = extend(raw.correlation);
  if (pool_.size() >= limits_.held_executions_max) relieve_pool();
  if (Launch* launch = launches_.find(key)) {
    take(key, *launch, execution);
    return;
  }
  const auto [held, made] = held_.insert(key);
  if (made) {
    held->cycle = cycle_;
    held_order_.push_back({key, cycle_});
  }
  pool_.push(held->chain, execution);
}

void Joiner::take(Key key, Launch& launch, const Execution& execution) {
  ++launch.executions;
  if (launch.waits()) {
    pool_.push(launch.waiting, execution);
    if (launch.executions == 1) await_return(key, launch);
    return;
  }
  settle(execution, &launch, key);
  release_if_done(key, launch);
}

// A launch leaves when it has been joined, has its stack, has returned, and no further execution can come.
void Joiner::release_if_done(Key key, Launch& launch) {
  if (launch.executions == 0 || launch.waits() || launch.kept) return;
  if (!launch.several) {
    launches_.erase(key);
    return;
  }
  launch.kept = true;
  kept_.push_back(key);
  if (kept_.size() > limits_.kept_launches_max) {
    launches_.erase(kept_.front());
    kept_.pop_front();
  }
}

// Joined launches go first, silently: all that they can lose is a further execution. A pending one is a loss.
void Joiner::make_room() {
  while (launches_.size() >= limits_.launches_max) {
    if (!kept_.empty()) {
      launches_.erase(kept_.front());
      kept_.pop_front();
      continue;
    }
    const Key oldest = order_.front();
    order_.pop_front();
    const Launch* launch = launches_.find(oldest);
    if (launch == nullptr) continue;
    if (launch->executions > 0) {
      give_up_stack(oldest);  // one of the two may move it to kept_, or erase it
      give_up_return(oldest);
    } else {
      ++counters_.evicted_unjoined;
      launches_.erase(oldest);
    }
  }
}

void Joiner::compact_order() {
  std::erase_if(order_, [&](Key key) { return launches_.find(key) == nullptr; });
}

void Joiner::on_stack(std::uint32_t correlation, std::uint64_t context_key, StackId stack,
                      StackEnding ending) {
  if (stack == 0) {
    ++counters_.stacks_empty;
  } else {
    ++counters_.stacks;
    const auto index = static_cast<std::size_t>(ending);
    if (index < counters_.stacks_by_ending.size()) ++counters_.stacks_by_ending[index];
    if (!context_stacks_.add(context_key, stack)) ++counters_.context_keys_refused;
  }
  const Key key = extend(correlation);
  Launch* launch = launches_.find(key);
  if (launch == nullptr) {
    if (syncs_.has(key)) {
      if (const auto call = syncs_.stack(key, stack)) add_sync(*call);
      return;
    }
    Early& waiting = *early(key);
    waiting.has_stack = true;
    waiting.stack = stack;
    return;
  }
  if (launch->stack_state == StackState::known) return;
  launch->stack_state = StackState::known;
  launch->stack = stack;
  settle_waiting(key, *launch);
}

Joiner::Early* Joiner::early(Key key) {
  if (Early* found = early_.find(key)) return found;
  while (early_.size() >= limits_.early_max && !early_order_.empty()) {
    drop_early(early_order_.front());
    early_order_.pop_front();
  }
  Early* made = early_.insert(key).first;
  made->since_ns = now_ns_;
  early_order_.push_back({key, now_ns_});
  return made;
}

void Joiner::drop_early(const Timed& oldest) {
  const Early* found = early_.find(oldest.key);
  if (found == nullptr || found->since_ns != oldest.at) return;
  if (found->failed) ++counters_.failed_unmatched;
  if (found->has_stack && found->stack != 0) ++counters_.stacks_unmatched;
  if (found->returned_ns != 0) ++counters_.returns_unmatched;
  early_.erase(oldest.key);
}

void Joiner::on_drain_cycle(std::uint64_t now_ns) {
  now_ns_ = std::max(now_ns_, now_ns);
  ++cycle_;
  if (cycle_ > limits_.hold_drains) {
    while (decide_oldest_held(cycle_ - limits_.hold_drains)) {
    }
  }
  on_drain_cycle_of_calls();
  while (!stack_order_.empty() && stack_order_.front().at <= now_ns_) {
    give_up_stack(stack_order_.front().key);
    stack_order_.pop_front();
  }
  // Most have had their stack long before their deadline.
  while (!stack_order_.empty()) {
    const Launch* launch = launches_.find(stack_order_.front().key);
    if (launch != nullptr && launch->stack_state == StackState::waiting) break;
    stack_order_.pop_front();
  }
  while (!early_order_.empty() && early_order_.front().at + limits_.stack_wait_ns <= now_ns_) {
    drop_early(early_order_.front());
    early_order_.pop_front();
  }
}

// Settles the executions that have waited longest for a launch, if they were found before that cycle.
bool Joiner::decide_oldest_held(std::uint64_t found_before_cycle) {
  while (!held_order_.empty()) {
    const Timed oldest = held_order_.front();
    const Held* held = held_.find(oldest.key);
    const bool stale = held == nullptr || held->cycle != oldest.at;
    if (!stale && oldest.at >= found_before_cycle) return false;
    held_order_.pop_front();
    if (stale) continue;
    ExecutionPool::Chain chain = held->chain;
    held_.erase(oldest.key);
    pool_.drain(chain, [&](const Execution& execution) { settle(execution, nullptr, oldest.key); });
    return true;
  }
  return false;
}

void Joiner::relieve_pool() {
  const std::size_t before = pool_.size();
  if (decide_oldest_held(std::numeric_limits<std::uint64_t>::max())) {
    counters_.decided_early += before - pool_.size();
    return;
  }
  while (pool_.size() == before && !stack_order_.empty()) {
    const Key key = stack_order_.front().key;
    stack_order_.pop_front();
    const Launch* launch = launches_.find(key);
    if (launch == nullptr || launch->executions == 0) continue;
    give_up_return(key);
    give_up_stack(key);
  }
  while (pool_.size() == before && !return_order_.empty()) {
    const Key key = return_order_.front().key;
    return_order_.pop_front();
    give_up_return(key);
  }
}

void Joiner::give_up_stack(Key key) {
  Launch* launch = launches_.find(key);
  if (launch == nullptr || launch->stack_state != StackState::waiting) return;
  ++counters_.stacks_given_up;
  launch->stack_state = StackState::none;
  settle_waiting(key, *launch);
}

void Joiner::on_overhead(const RawOverhead& overhead) {
  ++counters_.overhead_records;
  if (overhead.start_ns != 0 && overhead.end_ns > overhead.start_ns && overhead.end_ns >= armed_ns_ &&
      overhead.end_ns <= now_ns_ + limits_.arrival_tolerance_ns) {
    counters_.overhead_ns += overhead.end_ns - std::max(overhead.start_ns, armed_ns_);
  }
}

void Joiner::on_name(RawName name) {
  if (name.name.size() > limits_.name_bytes_max) name.name.resize(limits_.name_bytes_max);
  if (names_.contains(name.id)) return;
  if (names_.size() >= limits_.names_max || names_bytes_ + name.name.size() > limits_.names_bytes_max) {
    ++counters_.names_refused;
    return;
  }
  names_bytes_ += name.name.size();
  names_.emplace(name.id, std::move(name.name));
}

void Joiner::on_thread(RawThread thread) {
  const auto found = threads_.find(thread.tid);
  if (found != threads_.end()) {
    found->second = std::move(thread.comm);
  } else if (threads_.size() >= limits_.threads_max) {
    ++counters_.threads_refused;
  } else {
    threads_.emplace(thread.tid, std::move(thread.comm));
  }
}

void Joiner::on_device(RawDevice device) {
  constexpr std::size_t kDevicesMax = 256;
  if (devices_.size() < kDevicesMax || devices_.contains(device.device)) {
    devices_[device.device] = std::move(device);
  }
}

}  // namespace pillion::join
