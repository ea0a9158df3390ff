// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "abi/pillion_abi.h"

// The producer's end of the rings of pillion_abi.h. The memory belongs to the sidecar and is never believed:
// locks, heads, ring count and sizes are private copies, and of the shared words only tail is read.
namespace pillion::shim {

// Why a record was not taken. `full` when at least one ring was ours for a moment and had no room (also when
// the record is larger than a ring); `busy` when every ring was held by another thread, or by this one
// further up its stack (a signal handler that launches); `closed` when no session is open, or in a forked
// child.
enum class PushResult : std::uint8_t { ok, busy, full, closed };

struct RingSpan {
  std::uint8_t* data;
  std::uint64_t bytes;
};

// One producer's ring. Written only by the holder of the lock, except `lock` itself and `suspect`.
struct alignas(64) Ring {
  // A closed set and the zeroed page of a forked child must look the same, so zero means closed. A tid is
  // below 2^22.
  static constexpr std::uint32_t kClosed = 0;
  static constexpr std::uint32_t kFree = 0x8000'0000u;

  std::atomic<std::uint32_t> lock;  // kClosed, kFree or the tid of the holder
  std::uint32_t suspect;            // control thread: holder that was found dead one tick ago
  std::uint64_t head;               // bytes since the start, published or not
  std::uint64_t tail_seen;          // the last tail that was read and believed
  std::uint16_t sequence;           // of the newest record, 0 before the first
  pillion_ring* shared;
  std::uint8_t* data;
  std::atomic<std::uint64_t> tally;   // what its holders have counted, see Reservation::count_one()
  std::atomic<std::uint64_t> resets;  // tails that could not be
};

// Room in one ring, and that ring's lock with it: commit() or abort() it soon, on the same thread. Until then
// no other thread can use the ring, and the mapping stays.
class Reservation {
 public:
  // The longest contiguous piece from `offset` on; a reservation has two pieces at most. Aligned to 8 bytes
  // when `offset` is.
  [[nodiscard]] RingSpan span(std::uint64_t offset) const {
    if (offset >= bytes_) return {nullptr, 0};
    const std::uint64_t place = (ring_->head + offset) & mask_;
    const std::uint64_t until_wrap = mask_ + 1 - place;
    const std::uint64_t left = bytes_ - offset;
    return {ring_->data + place, left < until_wrap ? left : until_wrap};
  }

  // Copies with ordinary stores; what does not fit into the reservation is cut.
  void write(std::uint64_t offset, const void* from, std::uint64_t bytes) {
    const auto* source = static_cast<const std::uint8_t*>(from);
    while (bytes > 0) {
      const RingSpan piece = span(offset);
      const std::uint64_t now = bytes < piece.bytes ? bytes : piece.bytes;
      if (now == 0) return;
      std::memcpy(piece.data, source, now);
      source += now;
      offset += now;
      bytes -= now;
    }
  }

  [[nodiscard]] std::uint64_t bytes() const { return bytes_; }

  // Counts under the ring's lock, which is held anyway: an atomic add of its own would cost half as much as
  // the record.
  void count_one() {
    ring_->tally.store(ring_->tally.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  }

 private:
  friend class RingSet;
  Ring* ring_ = nullptr;
  std::uint64_t mask_ = 0;
  std::uint64_t bytes_ = 0;
};

// K rings, opened for one session and closed after it. Lives in memory that is never unmapped and that a
// forked child sees zeroed, which reads as closed; so a callback that is late by a session meets a closed
// set, not a fault.
class RingSet {
 public:
  // Any thread, also inside a signal handler; never waits, allocates or makes a system call. `tid` is the
  // caller's own and `size` a multiple of 8.
  [[nodiscard]] PushResult push(std::uint32_t tid, const void* record, std::uint32_t size) {
    Reservation room;
    const PushResult result = reserve(tid, size, &room);
    if (result != PushResult::ok) return result;
    const std::uint64_t place = room.ring_->head & room.mask_;
    if (place + size <= room.mask_ + 1) {
      std::memcpy(room.ring_->data + place, record, size);
    } else {
      room.write(0, record, size);
    }
    commit(room, size);
    return PushResult::ok;
  }

  // The same with the copy left to the caller, for snapshots. Threads as push(). `bytes` is a multiple of 8.
  // After non-temporal stores the caller fences before commit().
  [[nodiscard]] PushResult reserve(std::uint32_t tid, std::uint64_t bytes, Reservation* out) {
    const std::uint32_t count = count_.load(std::memory_order_relaxed);
    if (count == 0) return PushResult::closed;
    PushResult worst = PushResult::busy;
    std::uint32_t at = first_ring(tid, count);
    for (std::uint32_t tried = 0; tried < count; ++tried) {
      const PushResult one = try_ring(rings_[at], tid, bytes, out);
      if (one == PushResult::ok || one == PushResult::closed) return one;
      if (one == PushResult::full) worst = PushResult::full;
      if (++at == count) at = 0;
    }
    return worst;
  }

  // Publishes the first `used` bytes of the reservation (a multiple of 8, at most what was reserved): one
  // record, which gets its number here.
  void commit(Reservation& room, std::uint64_t used) {
    Ring& ring = *room.ring_;
    ring.sequence = static_cast<std::uint16_t>(ring.sequence == 0xffff ? 1 : ring.sequence + 1);
    // A header does not wrap: positions are multiples of 8.
    std::memcpy(ring.data + (ring.head & room.mask_) + offsetof(pillion_record_header, sequence),
                &ring.sequence, sizeof(ring.sequence));
    ring.head += used < room.bytes_ ? used : room.bytes_;
    // Pairs with the reader's acquire load of head: the bytes are there before the head that covers them.
    std::atomic_ref<std::uint64_t>(ring.shared->head).store(ring.head, std::memory_order_release);
    ring.lock.store(Ring::kFree, std::memory_order_release);
  }

  // Publishes nothing: for the reader the record never was.
  void abort(Reservation& room) { room.ring_->lock.store(Ring::kFree, std::memory_order_release); }

  // --- Control thread ---

  // Takes over a checked region (region.h) and lets producers in. The set must be closed and quiescent.
  void open(void* region, const pillion_region_header& checked);

  // Lets no producer in any more and waits up to `wait_ms` for those inside. True: quiescent, the region may
  // be unmapped. False: somebody is still inside, the mapping must stay; call again later. Frees locks of the
  // dead.
  [[nodiscard]] bool close(std::uint32_t wait_ms);

  // Once per tick: frees the lock of a holder that was found dead on two ticks running. A live holder keeps
  // its lock.
  void release_dead_holders();

  // In a forked child: every ring closed at once, whoever held it.
  void close_in_child();

  // Any thread: what was counted in reservations since open().
  [[nodiscard]] std::uint64_t tally() const;
  [[nodiscard]] std::uint64_t resets() const;
  [[nodiscard]] bool quiescent() const;

  // Control thread, while open.
  [[nodiscard]] std::uint32_t ring_count() const { return count_.load(std::memory_order_relaxed); }
  [[nodiscard]] std::uint32_t ring_bytes() const { return static_cast<std::uint32_t>(mask_ + 1); }

 private:
  // Spreads neighbouring tids without a division.
  static std::uint32_t first_ring(std::uint32_t tid, std::uint32_t count) {
    return static_cast<std::uint32_t>((std::uint64_t{tid * 0x9e37'79b1u} * count) >> 32);
  }

  PushResult try_ring(Ring& ring, std::uint32_t tid, std::uint64_t bytes, Reservation* out) {
    // A plain look first: a busy ring's line is not taken away from its holder.
    std::uint32_t seen = ring.lock.load(std::memory_order_relaxed);
    // Pairs with the release stores of commit(), abort() and open(): head, tail_seen and the mapping are
    // current.
    if (seen != Ring::kFree ||
        !ring.lock.compare_exchange_strong(seen, tid, std::memory_order_acquire, std::memory_order_relaxed)) {
      return seen == Ring::kClosed ? PushResult::closed : PushResult::busy;
    }
    const std::uint64_t mask = mask_;
    if (mask + 1 - (ring.head - ring.tail_seen) < bytes && !make_room(ring, mask, bytes)) {
      ring.lock.store(Ring::kFree, std::memory_order_release);
      return PushResult::full;
    }
    out->ring_ = &ring;
    out->mask_ = mask;
    out->bytes_ = bytes;
    return PushResult::ok;
  }

  // Reads the shared tail, checks it, and says whether `bytes` fit now.
  static bool make_room(Ring& ring, std::uint64_t mask, std::uint64_t bytes);

  std::atomic<std::uint32_t> count_;  // 0 while closed
  std::uint64_t mask_;                // ring_bytes - 1, changed only while every lock is held by close()
  Ring rings_[PILLION_RINGS_MAX];
};

// CaptureRequest::counters points to an array of this many pillion_counters in private memory that is never
// unmapped; the control thread adds them up into the shared one, every tick and before each answer. Threads
// add to the element of their tid, so that launches of many threads do not fight for one cache line. Gauges
// go into element 0.
inline constexpr std::uint32_t kCounterShards = 16;

inline void count(pillion_counters* shards, std::uint32_t tid, std::uint64_t pillion_counters::*field,
                  std::uint64_t n = 1) {
  std::atomic_ref<std::uint64_t>(shards[tid % kCounterShards].*field).fetch_add(n, std::memory_order_relaxed);
}

inline void set_gauge(pillion_counters* shards, std::uint64_t pillion_counters::*field, std::uint64_t value) {
  std::atomic_ref<std::uint64_t>(shards[0].*field).store(value, std::memory_order_relaxed);
}

}  // namespace pillion::shim
