// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "profile/profile.h"

namespace pillion::exporting {

// The quality block as lines: `key=value` in the model's order, then `anomaly=kind total meaning: detail`.
[[nodiscard]] std::vector<std::string> quality_lines(const profile::Profile& profile);

}  // namespace pillion::exporting
