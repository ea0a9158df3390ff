// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace pillion::shim {

// The memory that CUPTI writes activity records into: one reserved range, cut into equal buffers, whose pages
// are touched as CUPTI fills them. A buffer is ours exactly when it lies in the range. Any thread, no lock.
// Since CUDA 13.0 every launching thread holds one buffer, so there are many and they are not large.
class ActivityBuffers {
 public:
  static constexpr std::size_t kBufferBytes = std::size_t{256} << 10;
  static constexpr std::size_t kBuffersMax = 2048;

  // Capture thread. Reserves the range where there is none; false without address space for 16 buffers.
  [[nodiscard]] bool begin();

  // A zeroed buffer of kBufferBytes, or null when all are out.
  [[nodiscard]] std::uint8_t* take();

  [[nodiscard]] bool owns(const std::uint8_t* buffer) const;

  // Zeroes the bytes that were written and makes the buffer available again. False when it was not out.
  bool give_back(std::uint8_t* buffer, std::size_t written);

  // Capture thread, in this order: from withdraw() on there are no more buffers to be had; then either nobody
  // has one any more (CUPTI forgets all when it is finalised, without giving back those that threads were
  // filling) and the range can be unmapped, or it is put back.
  [[nodiscard]] std::uint8_t* withdraw() { return range_.exchange(nullptr, std::memory_order_acq_rel); }
  void unmap(std::uint8_t* range);
  void put_back(std::uint8_t* range) { range_.store(range, std::memory_order_release); }

  // Capture thread: returns the memory of the buffers that are not out.
  void release_memory();

  [[nodiscard]] std::uint32_t out() const { return out_.load(std::memory_order_relaxed); }

 private:
  static constexpr std::size_t kWords = kBuffersMax / 64;

  std::atomic<std::uint8_t*> range_{nullptr};
  std::uint32_t buffers_ = 0;
  std::atomic<std::uint32_t> out_{0};
  std::atomic<std::uint64_t> taken_[kWords]{};  // bit per buffer
};

}  // namespace pillion::shim
