// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

// The process's own entries of /proc. Asked for as the calling thread's, which the kernel answers as long as
// any thread lives: once main has called pthread_exit(), what /proc/self leads to has no memory, no files and
// no program any more. Where there is no /proc/thread-self (before Linux 3.17), /proc/self is asked. Any
// thread, any signal context; errno as the system call left it.
namespace pillion::shim {

// Read-only, close-on-exec. Negative when it cannot be opened. `name` as in "maps".
[[nodiscard]] int open_own_proc(const char* name);

// The same file under a number above 2, where the limit allows: a program that has closed its standard
// streams would read or write them as ours. Takes `fd`, which may be negative; close-on-exec.
[[nodiscard]] int above_standard_streams(int fd);

// Bytes of the link's text, which is NUL-terminated; 0 on failure. `name` as in "ns/pid".
std::size_t read_own_proc_link(const char* name, char* out, std::size_t size);

// chmod() of the file behind a descriptor of ours, also of one that was opened with O_PATH.
[[nodiscard]] bool change_mode(int fd, unsigned mode);

}  // namespace pillion::shim
