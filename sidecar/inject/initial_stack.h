// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>

#include "inject/target_memory.h"

namespace pillion::inject {

// AT_SECURE as the kernel laid it on the program's stack at its start, for whom /proc/PID/auxv may not be
// read: behind the arguments and the environment at `start_stack` (field 28 of /proc/PID/stat). Nothing when
// it is not found there.
[[nodiscard]] std::optional<bool> secure_by_initial_stack(const TargetMemory& memory,
                                                          std::uint64_t start_stack);

}  // namespace pillion::inject
