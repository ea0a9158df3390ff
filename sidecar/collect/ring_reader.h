// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/shared_rings.h"

namespace pillion::collect {

// The consumer's end of one single-producer ring. Owned by the draining thread. Never waits for the producer:
// what is published is there whole, what is not published is not seen. Its own position lies in private
// memory; from shared memory it believes `head` alone, and that only within one ring's length ahead.
class RingReader {
 public:
  RingReader(pillion_ring* ring, const std::byte* data, std::uint32_t ring_bytes)
      : ring_(ring), data_(data), ring_bytes_(ring_bytes) {}

  // Takes note of what is published now; take() copies no more than that. False: the position was impossible,
  // and the ring begins anew there.
  bool look();
  [[nodiscard]] std::uint64_t ready_bytes() const { return head_ - tail_; }

  // Copies out what look() saw and gives the room back to the producer. Valid until `buffer` changes.
  [[nodiscard]] std::span<const std::byte> take(std::vector<std::byte>& buffer);

 private:
  void release_tail();

  pillion_ring* ring_;
  const std::byte* data_;
  std::uint32_t ring_bytes_;
  std::uint64_t head_ = 0;
  std::uint64_t tail_ = 0;
};

}  // namespace pillion::collect
