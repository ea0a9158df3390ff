// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace pillion::shim {

// Which pages of this process can be read, for pointers that are probably right but not surely. A page is
// tried once, with process_vm_readv on ourselves, which fails where a load would fault; afterwards asking is
// a look into one cache line. A page that is unmapped later is still called readable until forget(): so this
// catches pointers that never were any, not those that were freed. Lives in static storage; any thread, no
// lock.
class ReadablePages {
 public:
  static constexpr std::uint64_t kPage = 4096;

  // `bytes` at most a page.
  [[nodiscard]] bool readable(std::uint64_t at, std::uint64_t bytes) {
    if (at < kLowest || at >= kHighest) return false;
    const std::uint64_t first = at / kPage;
    const std::uint64_t last = (at + bytes - 1) / kPage;
    return known(first) && (first == last || known(last));
  }

  void forget();

  // Another number after each forget(), and for each object: what was heard under this one still holds.
  [[nodiscard]] std::uint64_t generation() const { return generation_.load(std::memory_order_acquire); }

 private:
  static constexpr std::uint64_t kLowest = 65536;
  static constexpr std::uint64_t kHighest = std::uint64_t{1} << 47;
  static constexpr std::size_t kSets = 1024;  // for 32 MiB that are in use again and again
  static constexpr std::size_t kWays = 8;     // one cache line

  [[nodiscard]] bool known(std::uint64_t page) {
    std::atomic<std::uint64_t>* set = sets_[(page * 0x9e37'79b9'7f4a'7c15u) >> 54];
    for (std::size_t way = 0; way < kWays; ++way) {
      if (set[way].load(std::memory_order_relaxed) == page) return true;
    }
    return look(set, page);
  }

  // One system call; keeps errno.
  [[nodiscard]] static bool look(std::atomic<std::uint64_t>* set, std::uint64_t page);

  alignas(64) std::atomic<std::uint64_t> sets_[kSets][kWays]{};  // page numbers, 0: none
  std::atomic<std::uint64_t> generation_{0};
};

// A load from memory that belongs to the interpreter and was found readable. Functions that load so are
// PILLION_RAW: not instrumented, for what is read is not ours, and may be written by others meanwhile.
template <typename T>
[[gnu::always_inline]] inline T load(std::uint64_t at) {
  T value;
  __builtin_memcpy(&value, reinterpret_cast<const void*>(at), sizeof value);
  return value;
}

#define PILLION_RAW [[gnu::no_sanitize("address", "thread", "undefined")]]

}  // namespace pillion::shim
