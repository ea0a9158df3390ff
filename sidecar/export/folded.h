// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>

#include "profile/profile.h"

namespace pillion::exporting {

// One line per distinct stack, root first: `main;launch;cuLaunchKernel;kernel 1234`, for flamegraph.pl,
// inferno and speedscope; the number is the value at `value` of the profile's value_types. Labels are left
// out, except that the process comes first when there are several. In a frame `;` becomes `:`. Lines are
// sorted, zero values left out. Thread-safe.
[[nodiscard]] std::string to_folded(const profile::Profile& profile, std::size_t value = 0);

}  // namespace pillion::exporting
