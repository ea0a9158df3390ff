// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

#include "profile/builder.h"
#include "profile/profile.h"

namespace pillion::profile {

// Fills in what a profile of any type says of its window: times, processes, devices, settings, and the
// anomalies that were seen elsewhere.
void describe_window(const BuildInput& input, Profile& profile);

// The file of the first target's program, or its name; empty when there is no target.
[[nodiscard]] std::string_view main_program(const BuildInput& input);

}  // namespace pillion::profile
