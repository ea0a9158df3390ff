// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>

#include "base/result.h"
#include "inject/injector.h"

namespace pillion::commands {

// What an injection brings along: the shim and the CUPTI libraries that are shipped with the program in
// `folder`. An error when the shim is not there; without CUPTI the target's search path has to do.
[[nodiscard]] Result<inject::InjectionSettings> injection_settings(const std::filesystem::path& folder);

}  // namespace pillion::commands
