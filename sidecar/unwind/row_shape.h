// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <elfutils/libdw.h>

#include <cstdint>
#include <span>

#include "unwind/row.h"

namespace pillion::unwind {

// A register rule as libdw describes it, reduced to the forms that a Row can hold.
struct RegisterShape {
  enum class Kind : std::uint8_t { same, undefined, at_cfa, is_cfa, at_rbp, other };
  Kind kind = Kind::other;
  std::int64_t offset = 0;
};

// `operations` and `given` (a non-null pointer) are what dwarf_frame_register() returned.
[[nodiscard]] RegisterShape shape_of_register(std::span<const Dwarf_Op> operations, bool given);

// Put the rule into the row; false when it does not fit.
[[nodiscard]] bool set_rbp(Row& row, const RegisterShape& shape);
[[nodiscard]] bool set_cfa(Row& row, std::span<const Dwarf_Op> operations);

}  // namespace pillion::unwind
