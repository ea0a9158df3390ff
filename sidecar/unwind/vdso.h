// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/elf_file.h"

namespace pillion::unwind {

// The vDSO of this process, copied. Targets share the kernel, so theirs is the same image. Invalid when there
// is none.
[[nodiscard]] ElfBytes own_vdso();

}  // namespace pillion::unwind
