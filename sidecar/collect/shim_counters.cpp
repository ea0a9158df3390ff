// SPDX-License-Identifier: Apache-2.0
#include "collect/shim_counters.h"

#include <array>
#include <atomic>
#include <bit>
#include <cstddef>

namespace pillion::collect {
namespace {

constexpr std::size_t kWords = sizeof(pillion_counters) / sizeof(std::uint64_t);
constexpr std::uint64_t kPlausible = 1ull << 60;

constexpr std::size_t word_of(std::size_t offset) { return offset / sizeof(std::uint64_t); }

// States, not totals: these may shrink. Reserved words may become either.
constexpr bool may_shrink(std::size_t word) {
  return word == word_of(offsetof(pillion_counters, launching_threads)) ||
         word == word_of(offsetof(pillion_counters, sample_interval)) ||
         word >= word_of(offsetof(pillion_counters, reserved));
}

}  // namespace

const pillion_counters& ShimCounters::read() {
  if (shared_ == nullptr) return last_;
  // The fields are words of one type, as the wire's struct says: loaded one by one.
  auto* shared = const_cast<std::uint64_t*>(reinterpret_cast<const std::uint64_t*>(shared_));
  auto words = std::bit_cast<std::array<std::uint64_t, kWords>>(last_);
  for (std::size_t word = 0; word < kWords; ++word) {
    const std::uint64_t now = std::atomic_ref<std::uint64_t>(shared[word]).load(std::memory_order_relaxed);
    if (now > kPlausible || (now < words[word] && !may_shrink(word))) {
      ++implausible_;
      continue;
    }
    words[word] = now;
  }
  last_ = std::bit_cast<pillion_counters>(words);
  return last_;
}

}  // namespace pillion::collect
