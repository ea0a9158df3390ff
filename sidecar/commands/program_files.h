// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <vector>

#include "base/result.h"

namespace pillion::commands {

inline constexpr const char* kShimName = "libpillion.so";

// The folder of the running program, from /proc/self/exe.
[[nodiscard]] std::filesystem::path program_folder();

// The shim in `folder` or in its lib/ (the bundle's layout); an error names both places.
[[nodiscard]] Result<std::filesystem::path> find_shim(const std::filesystem::path& folder);

// Every libcupti.so* in the folders and in their lib/, links resolved, each real file once, sorted by name. A
// folder that cannot be read is an error. CUPTI's auxiliary libraries (libcupti_static, libnvperf) are not
// taken.
[[nodiscard]] Result<std::vector<std::filesystem::path>> find_cupti(
    const std::vector<std::filesystem::path>& folders);

}  // namespace pillion::commands
