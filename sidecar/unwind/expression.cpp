// SPDX-License-Identifier: Apache-2.0
#include "unwind/expression.h"

#include <dwarf.h>

#include <array>

namespace pillion::unwind {
namespace {

constexpr std::size_t kDepthMax = 64;
constexpr int kStepsMax = 1024;

class Evaluation {
 public:
  Evaluation(std::span<const Dwarf_Op> operations, const Registers& registers, const StackView& stack,
             std::optional<std::uint64_t> cfa)
      : operations_(operations), registers_(registers), stack_(stack), cfa_(cfa) {}

  ExpressionValue run() {
    for (int step = 0; next_ < operations_.size(); ++step) {
      if (step >= kStepsMax) return failed(ExpressionStatus::unsupported);
      const Dwarf_Op& operation = operations_[next_++];
      const auto status = apply(operation);
      if (status != ExpressionStatus::ok) return failed(status);
    }
    if (depth_ == 0) return failed(ExpressionStatus::unsupported);
    return {ExpressionStatus::ok, values_[depth_ - 1], 0};
  }

 private:
  using Status = ExpressionStatus;

  [[nodiscard]] ExpressionValue failed(Status status) const { return {status, 0, failed_address_}; }

  Status push(std::uint64_t value) {
    if (depth_ == kDepthMax) return Status::unsupported;
    values_[depth_++] = value;
    return Status::ok;
  }

  Status push_register(std::uint64_t number, std::uint64_t offset) {
    const auto index = register_index(number);
    if (!index || !registers_.knows(*index)) return Status::unknown_register;
    return push(registers_.values[*index] + offset);
  }

  Status apply(const Dwarf_Op& operation) {
    const std::uint8_t atom = operation.atom;
    if (atom >= DW_OP_lit0 && atom <= DW_OP_lit31) return push(atom - DW_OP_lit0);
    if (atom >= DW_OP_breg0 && atom <= DW_OP_breg31)
      return push_register(atom - DW_OP_breg0, operation.number);
    switch (atom) {
      case DW_OP_bregx:
        return push_register(operation.number, operation.number2);
      case DW_OP_call_frame_cfa:
        return cfa_ ? push(*cfa_) : Status::unsupported;
      case DW_OP_const1u:
      case DW_OP_const1s:
      case DW_OP_const2u:
      case DW_OP_const2s:
      case DW_OP_const4u:
      case DW_OP_const4s:
      case DW_OP_const8u:
      case DW_OP_const8s:
      case DW_OP_constu:
      case DW_OP_consts:
        return push(operation.number);  // libdw has extended the sign
      case DW_OP_nop:
      case DW_OP_stack_value:
        return Status::ok;
      case DW_OP_skip:
        return jump(operation);
      case DW_OP_dup:
      case DW_OP_over:
      case DW_OP_pick:
        return copy(atom == DW_OP_dup ? 0 : atom == DW_OP_over ? 1 : operation.number);
      default:
        break;
    }
    return depth_ == 0 ? Status::unsupported : apply_unary(operation);
  }

  Status copy(std::uint64_t from_top) {
    if (from_top >= depth_) return Status::unsupported;
    return push(values_[depth_ - 1 - from_top]);
  }

  Status apply_unary(const Dwarf_Op& operation) {
    std::uint64_t& top = values_[depth_ - 1];
    switch (operation.atom) {
      case DW_OP_drop:
        --depth_;
        return Status::ok;
      case DW_OP_plus_uconst:
        top += operation.number;
        return Status::ok;
      case DW_OP_neg:
        top = 0 - top;
        return Status::ok;
      case DW_OP_not:
        top = ~top;
        return Status::ok;
      case DW_OP_abs:
        top = static_cast<std::int64_t>(top) < 0 ? 0 - top : top;
        return Status::ok;
      case DW_OP_bra:
        --depth_;
        return values_[depth_] != 0 ? jump(operation) : Status::ok;
      case DW_OP_deref:
        return dereference(8);
      case DW_OP_deref_size:
        return dereference(operation.number);
      default:
        break;
    }
    return depth_ < 2 ? Status::unsupported : apply_binary(operation.atom);
  }

  Status dereference(std::uint64_t bytes) {
    std::uint64_t& top = values_[depth_ - 1];
    if (bytes == 0 || bytes > 8) return Status::unsupported;
    failed_address_ = top;
    if (!stack_.read(top, top)) return Status::unreadable;
    if (bytes < 8) top &= (1ULL << bytes * 8) - 1;
    return Status::ok;
  }

  Status apply_binary(std::uint8_t atom) {
    const std::uint64_t right = values_[--depth_];
    std::uint64_t& left = values_[depth_ - 1];
    const auto signed_left = static_cast<std::int64_t>(left);
    const auto signed_right = static_cast<std::int64_t>(right);
    switch (atom) {
      case DW_OP_plus:
        left += right;
        break;
      case DW_OP_minus:
        left -= right;
        break;
      case DW_OP_mul:
        left *= right;
        break;
      case DW_OP_and:
        left &= right;
        break;
      case DW_OP_or:
        left |= right;
        break;
      case DW_OP_xor:
        left ^= right;
        break;
      case DW_OP_shl:
        left = right < 64 ? left << right : 0;
        break;
      case DW_OP_shr:
        left = right < 64 ? left >> right : 0;
        break;
      case DW_OP_shra:
        left = static_cast<std::uint64_t>(signed_left >> (right < 63 ? right : 63));
        break;
      case DW_OP_eq:
        left = left == right;
        break;
      case DW_OP_ne:
        left = left != right;
        break;
      case DW_OP_lt:
        left = signed_left < signed_right;
        break;
      case DW_OP_le:
        left = signed_left <= signed_right;
        break;
      case DW_OP_gt:
        left = signed_left > signed_right;
        break;
      case DW_OP_ge:
        left = signed_left >= signed_right;
        break;
      case DW_OP_swap:
        values_[depth_] = left;
        left = right;
        ++depth_;
        break;
      default:
        return Status::unsupported;
    }
    return Status::ok;
  }

  // libdw numbers operations by their byte offset; DW_OP_skip and DW_OP_bra count from the end of their 3
  // bytes.
  Status jump(const Dwarf_Op& operation) {
    const std::uint64_t target = operation.offset + 3 + operation.number;
    for (std::size_t i = 0; i < operations_.size(); ++i) {
      if (operations_[i].offset != target || &operations_[i] == &operation) continue;
      next_ = i;
      return Status::ok;
    }
    return Status::unsupported;
  }

  std::span<const Dwarf_Op> operations_;
  const Registers& registers_;
  const StackView& stack_;
  std::optional<std::uint64_t> cfa_;
  std::array<std::uint64_t, kDepthMax + 1> values_;  // only the first depth_ are set
  std::size_t depth_ = 0;
  std::size_t next_ = 0;
  std::uint64_t failed_address_ = 0;
};

}  // namespace

std::optional<unsigned> register_index(std::uint64_t dwarf_register) {
  switch (dwarf_register) {
    case 3:
      return PILLION_REG_RBX;
    case 6:
      return PILLION_REG_RBP;
    case 7:
      return PILLION_REG_RSP;
    case 12:
      return PILLION_REG_R12;
    case 13:
      return PILLION_REG_R13;
    case 14:
      return PILLION_REG_R14;
    case 15:
      return PILLION_REG_R15;
    case 16:
      return PILLION_REG_RIP;
    default:
      return std::nullopt;
  }
}

ExpressionValue evaluate(std::span<const Dwarf_Op> operations, const Registers& registers,
                         const StackView& stack, std::optional<std::uint64_t> cfa) {
  return Evaluation(operations, registers, stack, cfa).run();
}

}  // namespace pillion::unwind
