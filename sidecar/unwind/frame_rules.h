// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <elfutils/libdw.h>

#include <array>
#include <cstdint>
#include <vector>

#include "unwind/expression.h"
#include "unwind/registers.h"

namespace pillion::unwind {

// How one register of the caller comes about.
struct RegisterRule {
  enum class Kind : std::uint8_t { same, undefined, memory, value };
  Kind kind = Kind::same;
  std::vector<Dwarf_Op> operations;  // memory: yield its address; value: yield it
};

// What call frame information says about one address, in full: for what does not fit a Row.
struct FrameRules {
  std::vector<Dwarf_Op> cfa;
  std::array<RegisterRule, PILLION_REG_COUNT> registers;  // order of enum pillion_snapshot_register
};

struct StepResult {
  ExpressionStatus status = ExpressionStatus::unsupported;
  std::uint64_t address = 0;  // of the failed read
};

// Replaces `registers` by the caller's: all, or rip, rsp and rbp only. Registers whose value cannot be told
// become unknown; a failure to get CFA, return address or rsp fails the step and leaves `registers` as they
// were.
[[nodiscard]] StepResult step_by_rules(const FrameRules& rules, const StackView& stack, Registers& registers,
                                       bool all_registers);

}  // namespace pillion::unwind
