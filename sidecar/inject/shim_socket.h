// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "inject/process_folder.h"

namespace pillion::inject {

// The path of the socket of a process's shim, as the process said it itself: in its own root, which may be
// another than ours; or '@' and an abstract name. Empty: it has none. Every process of a network namespace
// sees the names of all its sockets.
[[nodiscard]] std::string find_shim_socket(const ProcessFolder& folder, std::uint32_t thread,
                                           std::uint32_t inner_pid, std::uint64_t start_time);

}  // namespace pillion::inject
