// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "inject/process_folder.h"

namespace pillion::inject {

// The path that the shim of a process bound its socket to, as it said it itself: in its own root, which may
// be another than ours. Empty: it has none. Every process of a network namespace sees the names of all its
// sockets.
[[nodiscard]] std::string find_shim_socket(const ProcessFolder& folder, std::uint32_t thread,
                                           std::uint32_t inner_pid, std::uint64_t start_time);

}  // namespace pillion::inject
