// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

namespace pillion::inject {

// The text of a file under /proc, "" when it cannot be read; at most `bytes_max`.
[[nodiscard]] std::string read_proc_text(const std::string& path,
                                         std::size_t bytes_max = std::size_t{16} << 20);

// Field 22 of /proc/PID/stat, 0 when the process has gone.
[[nodiscard]] std::uint64_t process_start_time(const std::string& proc_root, std::uint32_t pid);

}  // namespace pillion::inject
