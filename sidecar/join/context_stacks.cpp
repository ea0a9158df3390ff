// SPDX-License-Identifier: Apache-2.0
#include "join/context_stacks.h"

#include <algorithm>
#include <numeric>

namespace pillion::join {

bool ContextStacks::add(std::uint64_t context_key, StackId stack) {
  std::uint32_t* at = index_.find(context_key);
  if (at == nullptr) {
    if (index_.size() >= keys_max_) return false;
    at = index_.insert(context_key).first;
    *at = static_cast<std::uint32_t>(seen_.size());
    seen_.emplace_back();
  }
  std::vector<SeenStack>& seen = seen_[*at];
  const auto found =
      std::find_if(seen.begin(), seen.end(), [&](const SeenStack& s) { return s.stack == stack; });
  if (found != seen.end()) {
    ++found->times;
    return true;
  }
  if (seen.size() >= stacks_per_key_max_) return false;
  seen.push_back({stack, 1});
  return true;
}

std::span<const SeenStack> ContextStacks::of(std::uint64_t context_key) const {
  const std::uint32_t* at = index_.find(context_key);
  return at == nullptr ? std::span<const SeenStack>{} : std::span<const SeenStack>(seen_[*at]);
}

void ContextStacks::clear() {
  index_.clear();
  seen_.clear();
}

void split_by_times(std::uint64_t value, std::span<const SeenStack> seen, std::vector<std::uint64_t>& parts) {
  parts.assign(seen.size(), 0);
  if (seen.empty()) return;
  if (seen.size() == 1) {
    parts[0] = value;
    return;
  }
  __extension__ using Wide = unsigned __int128;
  Wide total = 0;
  for (const SeenStack& s : seen) total += s.times;
  std::vector<std::pair<Wide, std::size_t>> remainders;
  remainders.reserve(seen.size());
  std::uint64_t left = value;
  for (std::size_t i = 0; i < seen.size(); ++i) {
    const Wide scaled = static_cast<Wide>(value) * seen[i].times;
    parts[i] = static_cast<std::uint64_t>(scaled / total);
    left -= parts[i];
    remainders.emplace_back(scaled % total, i);
  }
  // `left` is less than the number of stacks.
  std::stable_sort(remainders.begin(), remainders.end(),
                   [](const auto& a, const auto& b) { return a.first > b.first; });
  for (std::size_t i = 0; i < left; ++i) ++parts[remainders[i].second];
}

}  // namespace pillion::join
