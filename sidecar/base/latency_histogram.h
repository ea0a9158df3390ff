// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace pillion {

// How often which duration occurred. Count, sum, smallest and largest are exact; a percentile is off by 1.6 %
// at most: each power of two is cut into 32 parts, and the middle of one stands for what lies in it.
// Durations of 2^40 ns (18 minutes) and more lie in one part, whose percentile is the largest seen. Takes
// memory for the parts between its smallest and its largest duration, 9 KiB at most. Plain value.
class LatencyHistogram {
 public:
  static constexpr unsigned kSubBits = 5;
  static constexpr unsigned kExponentMax = 40;  // 2^40 ns and more are not told apart
  static constexpr std::size_t kParts = ((kExponentMax - kSubBits + 1) << kSubBits) + 1;

  void add(std::uint64_t ns, std::uint64_t times = 1) {
    slot(part_of(ns)) += times;
    min_ns_ = count_ == 0 ? ns : std::min(min_ns_, ns);
    max_ns_ = std::max(max_ns_, ns);
    count_ += times;
    sum_ns_ += ns * times;
  }

  void merge(const LatencyHistogram& other) {
    if (other.count_ == 0) return;
    for (std::size_t i = 0; i < other.counts_.size(); ++i) {
      if (other.counts_[i] != 0) slot(other.first_ + i) += other.counts_[i];
    }
    min_ns_ = count_ == 0 ? other.min_ns_ : std::min(min_ns_, other.min_ns_);
    max_ns_ = std::max(max_ns_, other.max_ns_);
    count_ += other.count_;
    sum_ns_ += other.sum_ns_;
  }

  [[nodiscard]] std::uint64_t count() const { return count_; }
  [[nodiscard]] std::uint64_t sum_ns() const { return sum_ns_; }
  [[nodiscard]] std::uint64_t min_ns() const { return min_ns_; }  // 0 when empty
  [[nodiscard]] std::uint64_t max_ns() const { return max_ns_; }

  // Nearest rank: the smallest duration that at least `percent` of all do not exceed. 0 when empty.
  [[nodiscard]] std::uint64_t percentile(unsigned percent) const {
    const std::uint64_t rank =
        std::max<std::uint64_t>(1, (count_ / 100) * percent + ((count_ % 100) * percent + 99) / 100);
    std::uint64_t seen = 0;
    for (std::size_t i = 0; i < counts_.size(); ++i) {
      seen += counts_[i];
      if (seen >= rank && count_ != 0) return middle(first_ + i);
    }
    return 0;
  }

  // By powers of two: element i counts the durations from 2^i to below 2^(i+1); 0 and 1 are in the first, and
  // those from 2^40 on in the last.
  [[nodiscard]] std::vector<std::uint64_t> by_power_of_two() const {
    std::vector<std::uint64_t> out(kExponentMax + 1);
    for (std::size_t i = 0; i < counts_.size(); ++i) {
      const std::uint64_t low = std::max<std::uint64_t>(low_of(first_ + i), 1);
      out[static_cast<std::size_t>(std::bit_width(low)) - 1] += counts_[i];
    }
    return out;
  }

 private:
  [[nodiscard]] static std::size_t part_of(std::uint64_t ns) {
    if (ns < (1u << kSubBits)) return static_cast<std::size_t>(ns);
    const auto exponent = static_cast<unsigned>(std::bit_width(ns)) - 1;
    if (exponent >= kExponentMax) return kParts - 1;
    const std::uint64_t within = (ns >> (exponent - kSubBits)) & ((1u << kSubBits) - 1);
    return ((exponent - kSubBits + 1) << kSubBits) + static_cast<std::size_t>(within);
  }

  [[nodiscard]] static std::uint64_t low_of(std::size_t part) {
    if (part < (1u << kSubBits)) return part;
    const unsigned exponent = static_cast<unsigned>(part >> kSubBits) + kSubBits - 1;
    const std::uint64_t within = part & ((1u << kSubBits) - 1);
    return (std::uint64_t{1} << exponent) + (within << (exponent - kSubBits));
  }

  [[nodiscard]] std::uint64_t middle(std::size_t part) const {
    if (part == kParts - 1) return max_ns_;
    const std::uint64_t width = low_of(part + 1) - low_of(part);
    return std::clamp(low_of(part) + (width - 1) / 2, min_ns_, max_ns_);
  }

  [[nodiscard]] std::uint64_t& slot(std::size_t part) {
    if (counts_.empty()) first_ = part;
    if (part < first_) {
      counts_.insert(counts_.begin(), first_ - part, 0);
      first_ = part;
    }
    if (part - first_ >= counts_.size()) counts_.resize(part - first_ + 1);
    return counts_[part - first_];
  }

  std::size_t first_ = 0;  // the part that counts_ begins with
  std::vector<std::uint64_t> counts_;
  std::uint64_t count_ = 0;
  std::uint64_t sum_ns_ = 0;
  std::uint64_t min_ns_ = 0;
  std::uint64_t max_ns_ = 0;
};

}  // namespace pillion
