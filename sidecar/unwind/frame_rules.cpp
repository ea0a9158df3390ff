// SPDX-License-Identifier: Apache-2.0
#include "unwind/frame_rules.h"

namespace pillion::unwind {
namespace {

ExpressionValue value_of(const RegisterRule& rule, unsigned index, const Registers& registers,
                         const StackView& stack, std::uint64_t cfa) {
  switch (rule.kind) {
    case RegisterRule::Kind::same:
      if (!registers.knows(index)) return {ExpressionStatus::unknown_register, 0, 0};
      return {ExpressionStatus::ok, registers.values[index], 0};
    case RegisterRule::Kind::undefined:
      return {ExpressionStatus::unsupported, 0, 0};
    case RegisterRule::Kind::memory: {
      auto place = evaluate(rule.operations, registers, stack, cfa);
      if (place.status != ExpressionStatus::ok) return place;
      // Compilers do not say that an epilogue has popped a register: its slot is below the stack pointer
      // then, and the register holds the caller's value.
      if (place.value < registers.rsp() && registers.knows(index))
        return {place.status, registers.values[index], 0};
      place.address = place.value;
      if (!stack.read(place.value, place.value)) place.status = ExpressionStatus::unreadable;
      return place;
    }
    case RegisterRule::Kind::value:
      return evaluate(rule.operations, registers, stack, cfa);
  }
  return {};
}

}  // namespace

StepResult step_by_rules(const FrameRules& rules, const StackView& stack, Registers& registers,
                         bool all_registers) {
  const auto cfa = evaluate(rules.cfa, registers, stack, std::nullopt);
  if (cfa.status != ExpressionStatus::ok) return {cfa.status, cfa.address};
  Registers caller;
  for (unsigned index = 0; index < (all_registers ? PILLION_REG_COUNT : PILLION_REG_RBX); ++index) {
    const auto found = value_of(rules.registers[index], index, registers, stack, cfa.value);
    if (found.status == ExpressionStatus::ok) {
      caller.set(index, found.value);
    } else if (index == PILLION_REG_RIP || index == PILLION_REG_RSP) {
      return {found.status, found.address};
    }
  }
  registers = caller;
  return {ExpressionStatus::ok, 0};
}

}  // namespace pillion::unwind
