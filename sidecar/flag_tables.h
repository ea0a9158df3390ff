// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>

#include "flags.h"

// The flags by subject, one file each; flags.cpp puts them together. A flag of a new subject gets a table of
// its own.
namespace pillion {

[[nodiscard]] std::span<const Flag> attach_flags();   // flags_attach.cpp: which processes
[[nodiscard]] std::span<const Flag> capture_flags();  // flags_capture.cpp: what their shims are asked for
[[nodiscard]] std::span<const Flag> server_flags();   // flags_server.cpp: serve, and who asks it
[[nodiscard]] std::span<const Flag> output_flags();   // flags_output.cpp: what is written, and where

}  // namespace pillion
