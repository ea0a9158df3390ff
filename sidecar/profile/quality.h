// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "profile/builder.h"
#include "profile/profile.h"

namespace pillion::profile {

// Fills Profile::quality and appends to Profile::anomalies what the counters of `input` say. `merged_stacks`
// and `distinct_stacks` are build()'s own.
void describe_quality(const BuildInput& input, std::uint64_t distinct_stacks, std::uint64_t merged_stacks,
                      Profile& profile);

}  // namespace pillion::profile
