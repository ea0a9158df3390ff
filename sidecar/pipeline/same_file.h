// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/result.h"
#include "base/unique_fd.h"
#include "unwind/maps_table.h"

namespace pillion::pipeline {

// The file of a mapping, by its path here, for reading: only if the kernel shows it in our own maps as it
// showed it in the process's (device and inode). Has no side effect on what is no regular file. Any thread.
[[nodiscard]] Result<UniqueFd> open_same_file(const unwind::Mapping& mapping);

}  // namespace pillion::pipeline
