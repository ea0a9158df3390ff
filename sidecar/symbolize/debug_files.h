// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>

#include "base/elf_file.h"

namespace pillion::symbolize {

// The separate debug file of a build-id (lower-case hex) under `root`, normally /usr/lib/debug, of this
// machine's own file system; nothing when there is none or its own build-id differs.
[[nodiscard]] std::optional<ElfFile> open_debug_file(const std::string& root, const std::string& build_id);

// The ELF file packed in section .gnu_debugdata (xz), unpacked to at most 64 MiB; nothing when there is none.
[[nodiscard]] std::optional<ElfFile> unpack_debugdata(const ElfFile& file);

}  // namespace pillion::symbolize
