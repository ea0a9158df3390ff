// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"
#include "base/unique_fd.h"

namespace pillion::inject {

// libpillion.so as this process sees it.
struct ShimFile {
  UniqueFd file;
  std::uint64_t size = 0;
  std::uint64_t start_offset = 0;  // of pillion_start_injected from where the library is loaded
};
[[nodiscard]] Result<ShimFile> open_shim_file(const std::string& path);

// The start of the mapping of the beginning of a file whose path in `maps` contains `name`; 0: there is none.
[[nodiscard]] std::uint64_t load_address(std::string_view maps, std::string_view name);

// The path of a shim in the text of /proc/PID/maps, "" when there is none.
[[nodiscard]] std::string resident_shim(std::string_view maps);

}  // namespace pillion::inject
