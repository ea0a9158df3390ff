// SPDX-License-Identifier: Apache-2.0
#include "unwind/row_cache.h"

#include <algorithm>
#include <bit>

namespace pillion::unwind {

RowCache::RowCache(std::size_t rows) : sets_(std::bit_ceil(std::max<std::size_t>(rows / 4, 2))) {
  shift_ = 64U - static_cast<unsigned>(std::countr_zero(sets_.size()));
}

void RowCache::insert(std::uint32_t file, std::uint64_t address, const Row& row) {
  const std::uint64_t key = key_of(file, address);
  if (key == kUncacheable) return;
  auto& slots = sets_[index_of(key)].slots;
  if (slots.back().key != 0) {
    ++evicted_;
  } else {
    ++rows_;
  }
  std::move_backward(slots.begin(), slots.end() - 1, slots.end());
  slots.front() = {key, row};
}

void RowCache::clear() {
  std::fill(sets_.begin(), sets_.end(), Set{});
  rows_ = 0;
}

}  // namespace pillion::unwind
