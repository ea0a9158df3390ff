// SPDX-License-Identifier: Apache-2.0
#include "collect/ring_reader.h"

#include <algorithm>
#include <atomic>
#include <cstring>

namespace pillion::collect {

bool RingReader::look() {
  // Pairs with the shim's release store of head: the bytes before it are written.
  const std::uint64_t head = std::atomic_ref<std::uint64_t>(ring_->head).load(std::memory_order_acquire);
  // The difference is of unsigned numbers: a head below tail is far out of range as well.
  const bool possible = head - tail_ <= ring_bytes_ && head % 8 == 0;
  if (!possible) {
    tail_ = head - head % 8;
    head_ = tail_;
    release_tail();
    return false;
  }
  head_ = head;
  return true;
}

std::span<const std::byte> RingReader::take(std::vector<std::byte>& buffer) {
  const auto bytes = static_cast<std::size_t>(head_ - tail_);
  if (buffer.size() < bytes) buffer.resize(ring_bytes_);
  const auto start = static_cast<std::size_t>(tail_ & (ring_bytes_ - 1));
  const std::size_t before_end = std::min<std::size_t>(bytes, ring_bytes_ - start);
  std::memcpy(buffer.data(), data_ + start, before_end);
  std::memcpy(buffer.data() + before_end, data_, bytes - before_end);
  tail_ = head_;
  if (bytes > 0) release_tail();
  return std::span(buffer).first(bytes);
}

void RingReader::release_tail() {
  // Pairs with the shim's acquire load of tail: the copy out is over before the room is used again.
  std::atomic_ref<std::uint64_t>(ring_->tail).store(tail_, std::memory_order_release);
}

}  // namespace pillion::collect
