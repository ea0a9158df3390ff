// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace pillion::inject {

// A file of which a process has mapped the beginning, and which it may execute: a program or a library.
struct MappedFile {
  std::string path;        // as maps names it, " (deleted)" taken away; not printable
  std::uint64_t base = 0;  // where offset 0 lies
  std::uint64_t end = 0;   // of its last mapping
};

// Of the text of /proc/PID/maps, in the order of their addresses. Bounded: at most `files_max`.
[[nodiscard]] std::vector<MappedFile> parse_mapped_files(std::string_view maps,
                                                         std::size_t files_max = 8'192);

// "/a/libcuda.so.1" and "/memfd:libcuda.so.1" both end in "libcuda.so.1".
[[nodiscard]] std::string_view file_name(std::string_view path);

}  // namespace pillion::inject
