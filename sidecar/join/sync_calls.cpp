// SPDX-License-Identifier: Apache-2.0
#include "join/sync_calls.h"

#include <algorithm>
#include <array>

namespace pillion::join {

bool SyncCalls::begin(Key key, const RawSync& sync, const Begun& begun) {
  if (calls_.find(key) != nullptr) return false;
  while (calls_.size() >= max_ && !order_.empty()) {
    if (calls_.erase(order_.front())) ++lost_;
    order_.pop_front();
  }
  Call& call = *calls_.insert(key).first;
  call.interval = {sync.tid,         sync.cbid,    sync.context,     begun.stack.value_or(0),
                   sync.context_key, sync.time_ns, begun.returned_ns};
  call.awaits_stack = sync.has_snapshot && !begun.stack;
  order_.push_back(key);
  if (order_.size() > 2 * calls_.size() + 4096) {
    std::erase_if(order_, [this](Key old) { return calls_.find(old) == nullptr; });
  }
  if (call.awaits_stack) stack_order_.emplace_back(key, begun.stack_deadline_ns);
  note_thread(key, sync, begun.cycle);
  return true;
}

// Records of one thread may come out of their order when a ring was busy: the older call may still return.
void SyncCalls::note_thread(Key key, const RawSync& sync, std::uint64_t cycle) {
  if (newest_of_.size() >= max_) newest_of_.clear();
  const auto [newest, made] = newest_of_.insert(sync.tid);
  if (!made) {
    Call* other = calls_.find(*newest);
    if (other != nullptr && other->interval.start_ns > sync.time_ns) {
      calls_.find(key)->superseded = true;
      superseded_.emplace_back(key, cycle);
      return;
    }
    if (other != nullptr && other->interval.end_ns == 0) {
      other->superseded = true;
      superseded_.emplace_back(*newest, cycle);
    }
  }
  *newest = key;
}

void SyncCalls::forget_superseded(std::uint64_t before_cycle) {
  while (!superseded_.empty() && superseded_.front().second < before_cycle) {
    const Key key = superseded_.front().first;
    superseded_.pop_front();
    const Call* call = calls_.find(key);
    if (call == nullptr || call->interval.end_ns != 0) continue;
    calls_.erase(key);
    ++lost_;
  }
}

std::optional<SyncInterval> SyncCalls::done(Key key) {
  const Call* call = calls_.find(key);
  if (call == nullptr || call->awaits_stack || call->interval.end_ns == 0) return std::nullopt;
  const SyncInterval interval = call->interval;
  calls_.erase(key);
  return interval;
}

std::optional<SyncInterval> SyncCalls::returned(Key key, std::uint64_t time_ns) {
  Call* call = calls_.find(key);
  if (call == nullptr || call->interval.end_ns != 0) return std::nullopt;
  call->interval.end_ns = std::max(time_ns, call->interval.start_ns);
  return done(key);
}

std::optional<SyncInterval> SyncCalls::stack(Key key, StackId stack) {
  Call* call = calls_.find(key);
  if (call == nullptr || !call->awaits_stack) return std::nullopt;
  call->awaits_stack = false;
  call->interval.stack = stack;
  return done(key);
}

void SyncCalls::clear() {
  calls_.clear();
  order_.clear();
  stack_order_.clear();
  newest_of_.clear();
  superseded_.clear();
}

bool copy_waits(std::uint32_t cbid) {
  // By CUpti_driver_api_trace_cbid, ascending: cuMemcpyHtoD, DtoH, HtoA, AtoH, cuMemcpy, 2D, 3D in all their
  // variants. Those within a device or between devices do not wait (CUDA driver API, "API synchronization
  // behavior").
  static constexpr std::array<std::uint32_t, 29> kWaiting = {43,  44,  45,  46,  53,  54,  56,  57,  58,  59,
                                                             232, 233, 248, 276, 278, 282, 287, 288, 290, 292,
                                                             305, 397, 398, 402, 403, 405, 406, 407, 408};
  static_assert(std::is_sorted(kWaiting.begin(), kWaiting.end()));
  return std::binary_search(kWaiting.begin(), kWaiting.end(), cbid);
}

}  // namespace pillion::join
