// SPDX-License-Identifier: Apache-2.0
#include "timeline/host_waits.h"

#include <algorithm>
#include <iterator>

namespace pillion::timeline {

bool HostWaits::add(SessionId session, const HostSync& sync) {
  if (sync.end_ns <= sync.start_ns) return true;  // waited for nothing
  std::deque<HostSync>& calls = threads_[{session, sync.tid}];
  bool room = true;
  if (size_ >= max_) {
    room = false;
    if (calls.empty()) {
      threads_.erase({session, sync.tid});
      return false;
    }
    calls.pop_front();
    --size_;
  }
  // A thread's rings are read one after the other: mostly, but not always, in order.
  auto at = calls.end();
  while (at != calls.begin() && std::prev(at)->end_ns > sync.end_ns) --at;
  calls.insert(at, sync);
  ++size_;
  return room;
}

std::uint64_t HostWaits::waited_ns(SessionId session, std::uint32_t tid, std::uint64_t after_ns,
                                   std::uint64_t until_ns) const {
  const auto thread = threads_.find({session, tid});
  if (thread == threads_.end()) return 0;
  const std::deque<HostSync>& calls = thread->second;
  auto at =
      std::upper_bound(calls.begin(), calls.end(), after_ns,
                       [](std::uint64_t time_ns, const HostSync& sync) { return time_ns < sync.end_ns; });
  std::uint64_t total = 0;
  for (; at != calls.end() && at->end_ns <= until_ns; ++at) total += at->end_ns - at->start_ns;
  return total;
}

void HostWaits::forget_before(std::uint64_t time_ns) {
  for (auto thread = threads_.begin(); thread != threads_.end();) {
    std::deque<HostSync>& calls = thread->second;
    while (!calls.empty() && calls.front().end_ns <= time_ns) {
      calls.pop_front();
      --size_;
    }
    thread = calls.empty() ? threads_.erase(thread) : std::next(thread);
  }
}

void HostWaits::clear() {
  threads_.clear();
  size_ = 0;
}

}  // namespace pillion::timeline
