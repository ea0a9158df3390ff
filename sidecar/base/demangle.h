// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace pillion {

constexpr std::size_t kDemangledMax = 16 * 1024;  // longer ones are cut and end in "..."
constexpr std::size_t kMangledMax = 8 * 1024;     // longer ones are returned as they are

// The readable form of an Itanium C++ or Rust (v0, legacy) name; anything else comes back unchanged. For
// foreign bytes: output and stack use (about 1 MiB for the longest name) are bounded. Any thread.
[[nodiscard]] std::string demangle(std::string_view mangled);

}  // namespace pillion
