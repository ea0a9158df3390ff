// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace pillion::shim {

struct MappedFile {
  int fd;               // read-only, the caller closes it; -1 with `error`
  std::uint32_t error;  // errno
  std::uint32_t flags;  // enum pillion_file_flags
};

// Control thread only: opens the file of the mapping that starts at `start`. Regular files only: opening a
// device or a FIFO has effects. A file on a dead network mount can hold up the caller, as it would hold up
// the program itself. ENOENT: no such mapping, or one without a file; ESTALE: the file was deleted or
// replaced and cannot be reached any more; EINVAL: no regular file.
[[nodiscard]] MappedFile open_mapped_file(std::uint64_t start);

}  // namespace pillion::shim
