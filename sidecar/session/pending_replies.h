// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <utility>

#include "base/event_loop.h"
#include "base/result.h"

namespace pillion::session {

// Questions on their way to the peer, each answered once: by the peer, by its deadline or by the session's
// end. Lives on the loop's thread.
template <typename Reply>
class PendingReplies {
 public:
  using Done = std::function<void(Result<Reply>)>;

  PendingReplies(EventLoop& loop, const char* operation) : loop_(loop), operation_(operation) {}
  ~PendingReplies() { fail_all("session ended"); }
  PendingReplies(const PendingReplies&) = delete;
  PendingReplies& operator=(const PendingReplies&) = delete;

  // The number to send along; never reused.
  [[nodiscard]] std::uint64_t add(std::chrono::milliseconds deadline, Done done) {
    const std::uint64_t number = next_++;
    const auto timer = loop_.after(
        deadline, [this, number] { (void)complete(number, fail(operation_, "", "no answer in time")); });
    waiting_.emplace(number, Waiting{timer, std::move(done)});
    return number;
  }

  // False when nobody waits for this number (any more).
  bool complete(std::uint64_t number, Result<Reply> reply) {
    const auto found = waiting_.find(number);
    if (found == waiting_.end()) return false;
    const Waiting waiting = std::move(found->second);
    waiting_.erase(found);
    loop_.cancel(waiting.timer);
    waiting.done(std::move(reply));
    return true;
  }

  void fail_all(const char* why) {
    while (!waiting_.empty()) (void)complete(waiting_.begin()->first, fail(operation_, "", why));
  }

  [[nodiscard]] std::size_t size() const { return waiting_.size(); }

 private:
  struct Waiting {
    EventLoop::TimerId timer;
    Done done;
  };

  EventLoop& loop_;
  const char* operation_;
  std::map<std::uint64_t, Waiting> waiting_;
  std::uint64_t next_ = 1;
};

}  // namespace pillion::session
