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

// One libcupti as the shim finds it: it looks in its own folder and in cupti/VERSION/ beside it, and goes by
// the name that programs ask for (libcupti.so.13, libcupti.so.11.8), not by the file's own
// (libcupti.so.2025.3.1).
struct CuptiFile {
  std::filesystem::path source;  // links resolved
  std::filesystem::path place;   // below the shim's folder
  bool operator<(const CuptiFile& other) const { return place < other.place; }
};

// Every libcupti in the folders, in their lib/, and in their cupti/VERSION/, sorted by place. Two files for
// one place are both listed. A folder that cannot be read is an error. CUPTI's auxiliary libraries are not
// taken.
[[nodiscard]] Result<std::vector<CuptiFile>> find_cupti(const std::vector<std::filesystem::path>& folders);

}  // namespace pillion::commands
