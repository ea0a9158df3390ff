// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <elfutils/libdw.h>

#include <cstdint>
#include <optional>
#include <span>

#include "unwind/registers.h"

namespace pillion::unwind {

enum class ExpressionStatus : std::uint8_t {
  ok,
  unreadable,        // memory that was not copied; `address` says which
  unknown_register,  // a register whose value is not known
  unsupported        // an operation that call frame information has no use for, or a malformed expression
};

struct ExpressionValue {
  ExpressionStatus status = ExpressionStatus::unsupported;
  std::uint64_t value = 0;
  std::uint64_t address = 0;  // of the failed read
};

// Index into Registers of a DWARF register number (System V x86-64 ABI, figure 3.36), or nothing.
[[nodiscard]] std::optional<unsigned> register_index(std::uint64_t dwarf_register);

// Evaluates a DWARF expression (DWARF 5, 2.5 and 6.4.2) to the value on top of its stack. `cfa` is what
// DW_OP_call_frame_cfa means here. Bounded: 64 values, 1,024 steps.
[[nodiscard]] ExpressionValue evaluate(std::span<const Dwarf_Op> operations, const Registers& registers,
                                       const StackView& stack, std::optional<std::uint64_t> cfa);

}  // namespace pillion::unwind
