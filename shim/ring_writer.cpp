// SPDX-License-Identifier: Apache-2.0
#include "ring_writer.h"

#include "system_calls.h"

namespace pillion::shim {
namespace {

constexpr std::uint64_t kCloseStepNs = 200'000;

bool held(std::uint32_t word) { return word != Ring::kClosed && word != Ring::kFree; }

// Takes the ring for good. True when it is closed afterwards.
bool close_ring(Ring& ring) {
  std::uint32_t seen = Ring::kFree;
  // Pairs with the release stores of commit() and abort(): what the last holder wrote has happened.
  if (ring.lock.compare_exchange_strong(seen, Ring::kClosed, std::memory_order_acquire)) return true;
  if (seen == Ring::kClosed) return true;
  return thread_is_gone(seen) &&
         ring.lock.compare_exchange_strong(seen, Ring::kClosed, std::memory_order_acquire);
}

}  // namespace

void RingSet::open(void* region, const pillion_region_header& checked) {
  auto* base = static_cast<std::uint8_t*>(region);
  mask_ = checked.ring_bytes - 1;
  for (std::uint32_t i = 0; i < checked.ring_count; ++i) {
    Ring& ring = rings_[i];
    ring.suspect = 0;
    ring.head = 0;
    ring.tail_seen = 0;
    ring.sequence = 0;
    ring.shared = reinterpret_cast<pillion_ring*>(base + checked.rings_offset) + i;
    ring.data = base + checked.data_offset + std::uint64_t{i} * checked.ring_bytes;
    ring.resets.store(0, std::memory_order_relaxed);
    ring.tally.store(0, std::memory_order_relaxed);
    // Pairs with the acquire of try_ring().
    ring.lock.store(Ring::kFree, std::memory_order_release);
  }
  count_.store(checked.ring_count, std::memory_order_release);
}

bool RingSet::close(std::uint32_t wait_ms) {
  count_.store(0, std::memory_order_relaxed);
  const std::uint64_t deadline = monotonic_ns() + std::uint64_t{wait_ms} * 1'000'000u;
  for (;;) {
    bool all = true;
    for (Ring& ring : rings_) all = close_ring(ring) && all;
    if (all || monotonic_ns() >= deadline) return all;
    sleep_ns(kCloseStepNs);
  }
}

void RingSet::release_dead_holders() {
  for (Ring& ring : rings_) {
    std::uint32_t holder = ring.lock.load(std::memory_order_relaxed);
    if (!held(holder) || !thread_is_gone(holder)) {
      ring.suspect = 0;
      continue;
    }
    // Two ticks: a tid that is being reused by a starting thread is not yet, or no longer, the dead one's.
    if (ring.suspect == holder) {
      // What the dead one had not published is written over: head never moved.
      ring.lock.compare_exchange_strong(holder, Ring::kFree, std::memory_order_acq_rel);
      ring.suspect = 0;
    } else {
      ring.suspect = holder;
    }
  }
}

void RingSet::close_in_child() {
  count_.store(0, std::memory_order_relaxed);
  for (Ring& ring : rings_) ring.lock.store(Ring::kClosed, std::memory_order_relaxed);
}

std::uint64_t RingSet::tally() const {
  std::uint64_t sum = 0;
  for (const Ring& ring : rings_) sum += ring.tally.load(std::memory_order_relaxed);
  return sum;
}

std::uint64_t RingSet::resets() const {
  std::uint64_t sum = 0;
  for (const Ring& ring : rings_) sum += ring.resets.load(std::memory_order_relaxed);
  return sum;
}

bool RingSet::quiescent() const {
  for (const Ring& ring : rings_) {
    if (ring.lock.load(std::memory_order_acquire) != Ring::kClosed) return false;
  }
  return true;
}

bool RingSet::make_room(Ring& ring, std::uint64_t mask, std::uint64_t bytes) {
  const std::uint64_t capacity = mask + 1;
  // Pairs with the reader's release store of tail: it has copied out what it gives back.
  const std::uint64_t tail =
      std::atomic_ref<std::uint64_t>(ring.shared->tail).load(std::memory_order_acquire);
  if (ring.head - tail > capacity) {
    // Impossible unless the reader is broken: start over as an empty ring at the place it claims to be.
    ring.resets.store(ring.resets.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
    ring.head = (tail + 7) & ~std::uint64_t{7};
    ring.tail_seen = ring.head;
    std::atomic_ref<std::uint64_t>(ring.shared->head).store(ring.head, std::memory_order_release);
  } else {
    ring.tail_seen = tail;
  }
  return capacity - (ring.head - ring.tail_seen) >= bytes;
}

}  // namespace pillion::shim
