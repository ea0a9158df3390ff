// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

namespace pillion::shim {

// What tells this process from every other one on the machine, also when two containers both call theirs
// pid 1.
struct ProcessIdentity {
  std::uint32_t pid;            // in its own PID namespace
  std::uint64_t pid_namespace;  // inode of /proc/self/ns/pid
  std::uint64_t start_time;     // field 22 of /proc/self/stat: clock ticks since boot (proc(5))
};

// False when /proc does not say.
[[nodiscard]] bool read_identity(ProcessIdentity* out);

// Field 22 of the text of a stat file, 0 when it is not there. The name in field 2 may hold blanks and
// parentheses.
[[nodiscard]] std::uint64_t parse_start_time(const char* text, std::size_t bytes);

// NUL-terminated, cut to `size`, "" on failure. Control thread, not the launch path.
void read_comm(char* out, std::size_t size);
void read_exe(char* out, std::size_t size);

// Whether a comma-separated list of decimal numbers ("1000,65532") holds `number`. Null and garbage hold
// nothing.
[[nodiscard]] bool list_holds(const char* list, std::uint32_t number);

}  // namespace pillion::shim
