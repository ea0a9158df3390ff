// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "profile/builder.h"
#include "profile/profile.h"

namespace pillion::profile {

// What making the stacks found.
struct StackCounts {
  std::uint64_t distinct = 0;
  std::uint64_t merged = 0;
  std::uint64_t python_unnamed = 0;  // Python frames whose code object never came
};

// The cause of launches without a single GPU record, for people. `pending`: some of them may still run;
// `came_before`: the process has given records before the window.
[[nodiscard]] std::string why_no_records(bool pending, bool came_before);

// Fills Profile::quality and appends to Profile::anomalies what the counters of `input` say. `stacks` are
// build()'s own; `idle` is null unless it is an idle profile.
void describe_quality(const BuildInput& input, const StackCounts& stacks, Profile& profile,
                      const IdleCounters* idle = nullptr);

}  // namespace pillion::profile
