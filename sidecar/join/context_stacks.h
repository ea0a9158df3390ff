// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/flat_map.h"
#include "records.h"

namespace pillion::join {

struct SeenStack {
  StackId stack = 0;
  std::uint64_t times = 0;
};

// How often each stack was seen for a context key since the session began. Owner: the Joiner's thread.
class ContextStacks {
 public:
  ContextStacks(std::size_t keys_max, std::size_t stacks_per_key_max)
      : keys_max_(keys_max), stacks_per_key_max_(stacks_per_key_max) {}

  // False when a limit kept it out.
  bool add(std::uint64_t context_key, StackId stack);

  // The stacks of a key; empty when none was seen. Valid until the next add().
  [[nodiscard]] std::span<const SeenStack> of(std::uint64_t context_key) const;

  void clear();

 private:
  std::size_t keys_max_;
  std::size_t stacks_per_key_max_;
  FlatMap<std::uint64_t, std::uint32_t> index_;
  std::vector<std::vector<SeenStack>> seen_;
};

// Cuts `value` into parts in proportion to `times`, by largest remainder: the parts add up to `value`
// exactly, and each differs from its exact share by less than 1. Ties go to the earlier stack. `parts` is
// resized to fit.
void split_by_times(std::uint64_t value, std::span<const SeenStack> seen, std::vector<std::uint64_t>& parts);

}  // namespace pillion::join
