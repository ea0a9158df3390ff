// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "profile/builder.h"
#include "profile/profile.h"

namespace pillion::profile {

// Whether any process of the window was recorded with all of `kinds` (enum pillion_kinds); true of none.
[[nodiscard]] bool any_recorded(const BuildInput& input, std::uint32_t kinds);

// Adds an anomaly for each kind that the profile's type is made of and a process was recorded without: what
// is shown in its place does not look wrong by itself.
void note_unrecorded(const BuildInput& input, Profile& profile);

}  // namespace pillion::profile
