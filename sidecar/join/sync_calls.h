// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <utility>

#include "base/flat_map.h"
#include "records.h"

namespace pillion::join {

// A time in which a thread waited for the GPU.
struct SyncInterval {
  std::uint32_t tid = 0;
  std::uint32_t cbid = 0;
  std::uint32_t context = 0;  // CUPTI's id; 0: not known
  StackId stack = 0;          // 0: none of its own, context_key says where it belongs
  std::uint64_t context_key = 0;
  std::uint64_t start_ns = 0;
  std::uint64_t end_ns = 0;  // open calls: 0
};

// Synchronisation calls from their record until they have returned and their stack is known. Bounded: past
// `max` the oldest leaves. A thread that synchronises again has left its call before; where that one's return
// does not come, it is lost. One owner thread.
class SyncCalls {
 public:
  using Key = std::uint64_t;  // correlation with its epoch

  explicit SyncCalls(std::size_t max) : max_(max) {}

  // The record came; its stack and its return may have come before. False when that id is known already.
  // `stack`: set when known; `stack_deadline_ns`: until when it is waited for where it is not.
  struct Begun {
    std::optional<StackId> stack;
    std::uint64_t returned_ns = 0;  // 0: not yet
    std::uint64_t stack_deadline_ns = 0;
    std::uint64_t cycle = 0;  // the drain that found it
  };
  [[nodiscard]] bool begin(Key key, const RawSync& sync, const Begun& begun);

  [[nodiscard]] bool has(Key key) const { return calls_.find(key) != nullptr; }
  // A call that has not returned; null for others. Valid until the next change.
  [[nodiscard]] const SyncInterval* open(Key key) const {
    const Call* call = calls_.find(key);
    return call != nullptr && call->interval.end_ns == 0 ? &call->interval : nullptr;
  }
  // What has come of a call that is known. The interval once it is complete: it is forgotten then.
  [[nodiscard]] std::optional<SyncInterval> returned(Key key, std::uint64_t time_ns);
  [[nodiscard]] std::optional<SyncInterval> stack(Key key, StackId stack);
  [[nodiscard]] std::optional<SyncInterval> complete(Key key) { return done(key); }

  // Gives up stacks that are due by `now_ns`; visit(SyncInterval) for each call that is complete by that.
  // Returns how many stacks were given up.
  template <typename Visit>
  std::uint64_t give_up_stacks(std::uint64_t now_ns, Visit&& visit) {
    std::uint64_t given_up = 0;
    while (!stack_order_.empty() && stack_order_.front().second <= now_ns) {
      const Key key = stack_order_.front().first;
      stack_order_.pop_front();
      Call* call = calls_.find(key);
      if (call == nullptr || !call->awaits_stack) continue;
      ++given_up;
      if (auto interval = stack(key, 0)) visit(*interval);
    }
    return given_up;
  }

  // Calls that were followed by another of their thread before that drain, and have not returned since.
  void forget_superseded(std::uint64_t before_cycle);

  // visit(SyncInterval) on all that are not complete: with end_ns 0 those that go on.
  template <typename Visit>
  void for_each(Visit&& visit) const {
    calls_.for_each([&](Key, const Call& call) {
      if (call.interval.end_ns != 0 || !call.superseded) visit(call.interval);
    });
  }

  // Calls that were forgotten without their return.
  [[nodiscard]] std::uint64_t lost() const { return lost_; }
  void clear();

 private:
  struct Call {
    SyncInterval interval;
    bool awaits_stack = false;
    bool superseded = false;
  };
  void note_thread(Key key, const RawSync& sync, std::uint64_t cycle);
  [[nodiscard]] std::optional<SyncInterval> done(Key key);

  const std::size_t max_;
  FlatMap<Key, Call> calls_;
  std::deque<Key> order_;  // by arrival; keys that have left stay until they are met
  std::deque<std::pair<Key, std::uint64_t>> stack_order_;
  FlatMap<std::uint64_t, Key> newest_of_;                 // by tid; cleared when it is full
  std::deque<std::pair<Key, std::uint64_t>> superseded_;  // since which drain
  std::uint64_t lost_ = 0;
};

// Whether a copy by this call waits for its execution by what it is: the synchronous copies between host and
// device. Others may, too, as an asynchronous one of pageable memory: such a call's return tells.
[[nodiscard]] bool copy_waits(std::uint32_t cbid);

}  // namespace pillion::join
