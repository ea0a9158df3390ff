// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "profile/builder.h"
#include "profile/profile.h"

namespace pillion::profile {

// Why a profile without samples (or without any time in them) has none, in one line of plain ASCII words:
// some formats have no place to say it themselves.
[[nodiscard]] std::string why_empty(const BuildInput& input, const Profile& profile);

}  // namespace pillion::profile
