// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace pillion::shim {

// A set of 64-bit keys with two marks each: fixed size, open addressing, no lock, nothing is ever taken out
// but all at once. Lives in static storage; zero bytes are an empty table. The keys should be hashes already:
// their low bits choose the place.
template <std::size_t kSlots>
class KeyTable {
  static_assert((kSlots & (kSlots - 1)) == 0);

 public:
  static constexpr std::uint64_t kMarkA = 1;
  static constexpr std::uint64_t kMarkB = 2;
  static constexpr std::uint64_t kMarks = kMarkA | kMarkB;

  using Slot = std::atomic<std::uint64_t>;

  // The key's slot, made if it is new; null when its neighbourhood is full. Any thread. Two bits of the key
  // are not compared.
  [[nodiscard]] Slot* find_or_insert(std::uint64_t key, bool* inserted) {
    *inserted = false;
    key &= ~kMarks;
    if (key == 0) key = kMarks + 1;
    std::size_t at = (key >> 2) & (kSlots - 1);
    for (int probe = 0; probe < kProbes; ++probe, at = (at + 1) & (kSlots - 1)) {
      Slot& slot = slots_[at];
      std::uint64_t seen = slot.load(std::memory_order_relaxed);
      if (seen == 0) {
        if (slot.compare_exchange_strong(seen, key, std::memory_order_relaxed)) {
          *inserted = true;
          return &slot;
        }
      }
      if ((seen & ~kMarks) == key) return &slot;
    }
    return nullptr;
  }

  // Touches every page: afterwards no lookup faults. Not while others insert keys that matter.
  void clear() {
    for (Slot& slot : slots_) slot.store(0, std::memory_order_relaxed);
  }

 private:
  // 4 cache lines: what a launch pays at most. At half full a run of 32 is rare.
  static constexpr int kProbes = 32;

  Slot slots_[kSlots]{};
};

}  // namespace pillion::shim
