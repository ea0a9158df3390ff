// SPDX-License-Identifier: Apache-2.0
#include "activity_buffers.h"

#include <sys/mman.h>

#include <cstring>

namespace pillion::shim {

bool ActivityBuffers::begin() {
  if (range_.load(std::memory_order_relaxed) != nullptr) return true;
  // A limit on the address space may not leave so much; then fewer do.
  for (std::size_t count = kBuffersMax; count >= 16; count /= 2) {
    void* memory = ::mmap(nullptr, count * kBufferBytes, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) continue;
    // Small pages, or one record would cost 2 MiB of the program's memory limit. A forked child keeps its
    // copy: CUPTI may look at its buffers when that exits.
    ::madvise(memory, count * kBufferBytes, MADV_NOHUGEPAGE);
    buffers_ = static_cast<std::uint32_t>(count);
    range_.store(static_cast<std::uint8_t*>(memory), std::memory_order_release);
    return true;
  }
  return false;
}

std::uint8_t* ActivityBuffers::take() {
  std::uint8_t* range = range_.load(std::memory_order_acquire);
  if (range == nullptr) return nullptr;
  // The lowest free one: its pages are the likeliest to be there already.
  for (std::size_t word = 0; word * 64 < buffers_; ++word) {
    std::uint64_t seen = taken_[word].load(std::memory_order_relaxed);
    while (~seen != 0) {
      const auto bit = static_cast<std::uint32_t>(__builtin_ctzll(~seen));
      if (word * 64 + bit >= buffers_) break;
      if (taken_[word].compare_exchange_weak(seen, seen | std::uint64_t{1} << bit,
                                             std::memory_order_acquire)) {
        out_.fetch_add(1, std::memory_order_relaxed);
        return range + (word * 64 + bit) * kBufferBytes;
      }
    }
  }
  return nullptr;
}

bool ActivityBuffers::owns(const std::uint8_t* buffer) const {
  const std::uint8_t* range = range_.load(std::memory_order_acquire);
  return range != nullptr && buffer >= range && buffer < range + buffers_ * kBufferBytes &&
         static_cast<std::size_t>(buffer - range) % kBufferBytes == 0;
}

bool ActivityBuffers::give_back(std::uint8_t* buffer, std::size_t written) {
  const auto index = static_cast<std::size_t>(buffer - range_.load(std::memory_order_relaxed)) / kBufferBytes;
  const std::uint64_t mask = std::uint64_t{1} << (index % 64);
  if ((taken_[index / 64].load(std::memory_order_relaxed) & mask) == 0) return false;
  std::memset(buffer, 0, written < kBufferBytes ? written : kBufferBytes);
  // Pairs with the acquire in take(): the zeroes are there before the next owner.
  taken_[index / 64].fetch_and(~mask, std::memory_order_release);
  out_.fetch_sub(1, std::memory_order_relaxed);
  return true;
}

void ActivityBuffers::unmap(std::uint8_t* range) {
  for (auto& word : taken_) word.store(0, std::memory_order_release);
  out_.store(0, std::memory_order_relaxed);
  ::munmap(range, buffers_ * kBufferBytes);
}

void ActivityBuffers::release_memory() {
  std::uint8_t* range = range_.load(std::memory_order_relaxed);
  if (range == nullptr) return;
  for (std::uint32_t index = 0; index < buffers_; ++index) {
    const std::uint64_t mask = std::uint64_t{1} << (index % 64);
    std::atomic<std::uint64_t>& word = taken_[index / 64];
    // Held while its pages go, so that nobody is given a buffer that is being zeroed under him.
    if ((word.fetch_or(mask, std::memory_order_acquire) & mask) != 0) continue;
    ::madvise(range + index * kBufferBytes, kBufferBytes, MADV_DONTNEED);
    word.fetch_and(~mask, std::memory_order_release);
  }
}

}  // namespace pillion::shim
