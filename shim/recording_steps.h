// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "capture_session.h"
#include "ring_writer.h"
#include "sampler.h"
#include "thread_state.h"

// What launches and synchronisation calls do alike on the program's threads. Everything here keeps to the
// rules of a launch: no wait, no allocation, no system call but those that are named.
namespace pillion::shim {

// Marks the thread as inside, so that a launch made by a signal handler on top of ours is not recorded but
// counted.
class InsideGuard {
 public:
  explicit InsideGuard(ThreadState& thread) : thread_(thread) { thread_.inside = 1; }
  ~InsideGuard() { thread_.inside = 0; }
  InsideGuard(const InsideGuard&) = delete;
  InsideGuard& operator=(const InsideGuard&) = delete;

 private:
  ThreadState& thread_;
};

// Publishes a record only while its session is the current one. Decided inside the ring's lock, so that a
// thread that was preempted here for a whole session cannot write into the next one.
template <typename Record>
[[gnu::always_inline]] inline PushResult push_record(CaptureSession& session, std::uint32_t number,
                                                     std::uint32_t tid, const Record& record, bool count_it) {
  constexpr std::uint32_t size = sizeof(Record);
  Reservation room;
  const PushResult reserved = session.events->reserve(tid, size, &room);
  if (reserved != PushResult::ok) return reserved;
  if (session.number.load(std::memory_order_relaxed) != number) {
    session.events->abort(room);
    return PushResult::closed;
  }
  const RingSpan whole = room.span(0);
  if (whole.bytes == size) [[likely]] {
    __builtin_memcpy(whole.data, &record, size);
  } else {
    room.write(0, &record, size);
  }
  if (count_it) room.count_one();
  session.events->commit(room, size);
  return PushResult::ok;
}

// The thread's first call since arming: its THREAD record. Some system calls.
void announce_thread(CaptureSession& session, std::uint32_t number, ThreadState& thread, std::uint64_t sp);

// Counts the thread among those whose time the sampler's budget is a share of.
[[gnu::always_inline]] inline void note_active(CaptureSession& session, ThreadState& thread) {
  const std::uint32_t tick = session.tick.load(std::memory_order_relaxed);
  if (thread.tick != tick) [[unlikely]] {
    thread.tick = tick;
    session.threads_this_tick.fetch_add(1, std::memory_order_relaxed);
  }
}

// What a snapshot is of.
struct RecordedCall {
  std::uint32_t correlation;
  std::uint64_t time_ns;
  std::uint64_t context_key;
};

// What a snapshot took, for the sampler that decided on it. bytes 0: none was published.
struct SnapshotCost {
  std::uint64_t ns;
  std::uint64_t bytes;
};

// Takes the snapshot that was decided on.
[[nodiscard]] SnapshotCost snapshot_call(CaptureSession& session, ThreadState& thread,
                                         const RecordedCall& call, std::uint32_t number);

// For how many handlers one that was timed stands; 0: it was not.
enum class Timed : std::uint8_t { no, once, many };

// The handler of a call has taken from `begun` to now: counted for one in many, which stands for all of them,
// and for each one with a snapshot. Says what holds for the handler at the call's EXIT.
Timed account_handler(CaptureSession& session, ThreadState& thread, std::uint64_t begun, bool sampled);

// The same at the EXIT: its time goes to the calls that were counted at ENTER.
void account_exit(CaptureSession& session, const ThreadState& thread, std::uint64_t begun, Timed timed);

// The word that CUPTI keeps for us from a call's ENTER to its EXIT says that its record was published, in
// which session, and what account_handler() said. An EXIT that finds anything else (another session's word,
// none at all) is not told.
class ReturnMark {
 public:
  ReturnMark(std::uint32_t number, std::uint32_t correlation)
      : word_(((std::uint64_t{number} << 32 | correlation) ^ kMark) << 2) {}
  [[nodiscard]] std::uint64_t with(Timed timed) const { return word_ | static_cast<std::uint64_t>(timed); }
  [[nodiscard]] bool is_in(std::uint64_t kept) const { return (kept & ~std::uint64_t{3}) == word_; }
  [[nodiscard]] static Timed timed(std::uint64_t kept) { return static_cast<Timed>(kept & 3); }

 private:
  static constexpr std::uint64_t kMark = 0x51c3'7ae9'0d84'b62f;
  std::uint64_t word_;  // the two uppermost bits of the session's number are not in it
};

}  // namespace pillion::shim
