// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <utility>

#include "base/host_sync.h"
#include "base/idle_data.h"

namespace pillion::timeline {

// Synchronisation calls by thread, for as long as a gap may ask for them. Bounded: past `max` the oldest of
// the same thread leaves, or the new one is refused. One owner thread.
class HostWaits {
 public:
  explicit HostWaits(std::size_t max) : max_(max) {}

  // False when one was lost for want of room.
  bool add(SessionId session, const HostSync& sync);

  // How long the thread was in calls that returned after `after_ns` and not after `until_ns`: their whole
  // time, also what lies before.
  [[nodiscard]] std::uint64_t waited_ns(SessionId session, std::uint32_t tid, std::uint64_t after_ns,
                                        std::uint64_t until_ns) const;

  // Those that returned by then are no longer needed.
  void forget_before(std::uint64_t time_ns);
  void clear();
  [[nodiscard]] std::size_t size() const { return size_; }

 private:
  using Thread = std::pair<SessionId, std::uint32_t>;
  const std::size_t max_;
  std::size_t size_ = 0;
  std::map<Thread, std::deque<HostSync>> threads_;  // by end: a thread's calls follow each other
};

}  // namespace pillion::timeline
