// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "unwind/row.h"

namespace pillion::unwind {

// Rows by (file, lookup address), in sets of four that share one cache line. Never grows: a new row in a full
// set pushes out the set's oldest (first in, first out; hits do not write). 1,048,576 rows take 16 MiB from
// the start. Owned by one thread.
class RowCache {
 public:
  static constexpr std::size_t kRowsMax = 1U << 20;
  static constexpr std::uint64_t kAddressMax = 1ULL << 40;  // above: not cached
  static constexpr std::uint32_t kFileMax = 1U << 24;

  explicit RowCache(std::size_t rows = kRowsMax);

  [[nodiscard]] const Row* find(std::uint32_t file, std::uint64_t address) const {
    const std::uint64_t key = key_of(file, address);
    const Set& set = sets_[index_of(key)];
    for (const Slot& slot : set.slots)
      if (slot.key == key) return &slot.row;
    return nullptr;
  }
  void insert(std::uint32_t file, std::uint64_t address, const Row& row);
  void clear();
  [[nodiscard]] std::uint64_t rows() const { return rows_; }
  [[nodiscard]] std::uint64_t evicted() const { return evicted_; }

 private:
  static constexpr std::uint64_t kUncacheable = 1;  // file 0 never has rows, so no real key has this value

  struct Slot {
    std::uint64_t key = 0;
    Row row;
  };
  struct alignas(64) Set {
    std::array<Slot, 4> slots;
  };

  static std::uint64_t key_of(std::uint32_t file, std::uint64_t address) {
    if (address >= kAddressMax || file >= kFileMax) return kUncacheable;
    return static_cast<std::uint64_t>(file) << 40 | address;
  }
  [[nodiscard]] std::size_t index_of(std::uint64_t key) const {
    return static_cast<std::size_t>((key * 0x9E3779B97F4A7C15ULL) >> shift_);
  }

  std::vector<Set> sets_;
  unsigned shift_ = 64;
  std::uint64_t rows_ = 0;
  std::uint64_t evicted_ = 0;
};

}  // namespace pillion::unwind
