// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <elfutils/libdw.h>

#include <cstdint>
#include <memory>
#include <optional>

#include "base/elf_file.h"

namespace pillion::symbolize {

// Where functions begin, from .eh_frame: the only names that stripped libraries leave. One owner thread.
class FunctionRanges {
 public:
  // `file` outlives this.
  explicit FunctionRanges(const ElfFile& file) : cfi_(dwarf_getcfi_elf(file.elf())) {}

  [[nodiscard]] std::optional<std::uint64_t> start_of(std::uint64_t address);

 private:
  struct CfiEnd {
    void operator()(Dwarf_CFI* cfi) const { dwarf_cfi_end(cfi); }
  };
  std::unique_ptr<Dwarf_CFI, CfiEnd> cfi_;
};

}  // namespace pillion::symbolize
