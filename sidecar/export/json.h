// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "profile/profile.h"

namespace pillion::exporting {

// The profile as one JSON object, by profile.schema.json next to this file. Thread-safe. Never fails: a text
// that is not UTF-8 has its bad bytes replaced.
[[nodiscard]] std::string to_json(const profile::Profile& profile);

}  // namespace pillion::exporting
