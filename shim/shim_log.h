// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace pillion::shim {

// The shim is silent: it may write to the file that PILLION_LOG names and to nothing else. Lines are bounded
// (512 bytes each, 1 MiB in all), built on the stack, written by one write(2). Not for the launch path.

// Once, from InitializeInjection. A path that is no regular file is ignored.
void open_log(const char* path);

// "what detail number": any thread. Nothing is written while RLIMIT_FSIZE is set: SIGXFSZ would kill the
// program.
void log_line(const char* what, const char* detail = "");
void log_line(const char* what, const char* detail, std::uint64_t number);

// In a forked child: forget the file.
void close_log_in_child();

}  // namespace pillion::shim
