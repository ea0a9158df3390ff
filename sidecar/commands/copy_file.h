// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <filesystem>

#include "base/result.h"

namespace pillion::commands {

// Makes `to` a file with the contents of `from` and these permission bits, in one step (temporary file,
// rename): a process that has the old file mapped keeps it, and nobody ever sees half of it. Does nothing
// when it is so already.
[[nodiscard]] Result<void> copy_file(const std::filesystem::path& from, const std::filesystem::path& to,
                                     mode_t mode);

}  // namespace pillion::commands
