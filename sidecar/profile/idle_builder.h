// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>

#include "base/idle_data.h"
#include "profile/builder.h"
#include "profile/frame_resolver.h"
#include "profile/profile.h"

namespace pillion::profile {

// Order of Sample::values in an idle profile.
inline constexpr std::size_t kIdleTimeNs = 0;
inline constexpr std::size_t kIdleGaps = 1;
inline constexpr std::array<ValueType, 2> kIdleValueTypes{
    {{"gpu_idle", "nanoseconds", "gpu_idle_ns"}, {"gaps", "count", "gaps"}}};

// Makes the idle profile of a window: leaf "idle: host-bound" and the like, then the API call and the stack
// of the launch whose execution ended the gap. `idle` has rows of the sessions of `input`, by
// TargetInput::session. Time and gaps appear in the samples to the last unit, whatever had to be merged. On
// any thread; reads only its arguments.
[[nodiscard]] Profile build_idle(const BuildInput& input, const IdleData& idle, FrameResolver& resolver);

}  // namespace pillion::profile
