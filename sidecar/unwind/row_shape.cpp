// SPDX-License-Identifier: Apache-2.0
#include "unwind/row_shape.h"

#include <dwarf.h>

#include <array>
#include <limits>
#include <optional>

namespace pillion::unwind {
namespace {

constexpr std::uint64_t kDwarfRbp = 6;
constexpr std::uint64_t kDwarfRsp = 7;

struct RegisterOffset {
  std::uint64_t number;
  std::int64_t offset;
};

std::optional<RegisterOffset> register_offset(const Dwarf_Op& operation) {
  if (operation.atom == DW_OP_bregx)
    return RegisterOffset{operation.number, static_cast<std::int64_t>(operation.number2)};
  if (operation.atom >= DW_OP_breg0 && operation.atom <= DW_OP_breg31)
    return RegisterOffset{static_cast<std::uint64_t>(operation.atom - DW_OP_breg0),
                          static_cast<std::int64_t>(operation.number)};
  return std::nullopt;
}

// The expression that linkers write for a PLT section: rsp + 8 + ((rip & 15) >= n) * 8.
std::optional<std::int32_t> plt_threshold(std::span<const Dwarf_Op> operations) {
  static constexpr std::array<std::uint8_t, 8> kAtoms = {DW_OP_breg7,   DW_OP_breg16, DW_OP_lit15, DW_OP_and,
                                                         0 /* lit n */, DW_OP_ge,     DW_OP_lit3,  DW_OP_shl};
  if (operations.size() != 9 || operations[8].atom != DW_OP_plus || operations[0].number != 8 ||
      operations[1].number != 0)
    return std::nullopt;
  for (std::size_t i = 0; i < kAtoms.size(); ++i)
    if (i != 4 && operations[i].atom != kAtoms[i]) return std::nullopt;
  const int literal = operations[4].atom - DW_OP_lit0;
  if (literal < 0 || literal > 15) return std::nullopt;
  return literal;
}

bool fits32(std::int64_t offset) {
  return offset >= std::numeric_limits<std::int32_t>::min() &&
         offset <= std::numeric_limits<std::int32_t>::max();
}

}  // namespace

RegisterShape shape_of_register(std::span<const Dwarf_Op> operations, bool given) {
  using Kind = RegisterShape::Kind;
  if (operations.empty()) return {given ? Kind::undefined : Kind::same, 0};
  if (operations[0].atom != DW_OP_call_frame_cfa) return {};
  if (operations.size() == 2) {
    const auto base = register_offset(operations[1]);
    if (base && base->number == kDwarfRbp) return {Kind::at_rbp, base->offset};
  }
  std::size_t next = 1;
  std::int64_t offset = 0;
  if (next < operations.size() && operations[next].atom == DW_OP_plus_uconst)
    offset = static_cast<std::int64_t>(operations[next++].number);
  const bool value = next < operations.size() && operations[next].atom == DW_OP_stack_value;
  if (value) ++next;
  if (next != operations.size()) return {};
  return {value ? Kind::is_cfa : Kind::at_cfa, offset};
}

bool set_rbp(Row& row, const RegisterShape& shape) {
  using Kind = RegisterShape::Kind;
  switch (shape.kind) {
    case Kind::same:
      row.rbp = RbpRule::same;
      break;
    case Kind::undefined:
      row.rbp = RbpRule::undefined;
      break;
    case Kind::at_cfa:
      row.rbp = RbpRule::at_cfa;
      break;
    case Kind::at_rbp:
      row.rbp = RbpRule::at_rbp;
      break;
    default:
      return false;
  }
  row.rbp_offset = static_cast<std::int16_t>(shape.offset);
  return row.rbp_offset == shape.offset;
}

bool set_cfa(Row& row, std::span<const Dwarf_Op> operations) {
  if (const auto threshold = plt_threshold(operations)) {
    row.cfa = CfaRule::plt;
    row.cfa_offset = *threshold;
    return true;
  }
  const auto base = operations.empty() ? std::nullopt : register_offset(operations[0]);
  if (!base || !fits32(base->offset)) return false;
  row.cfa_offset = static_cast<std::int32_t>(base->offset);
  if (operations.size() == 1 && base->number == kDwarfRsp) {
    row.cfa = CfaRule::rsp;
  } else if (operations.size() == 1 && base->number == kDwarfRbp) {
    row.cfa = CfaRule::rbp;
  } else if (operations.size() == 2 && base->number == kDwarfRbp && operations[1].atom == DW_OP_deref) {
    row.cfa = CfaRule::deref_rbp;
  } else {
    return false;
  }
  return true;
}

}  // namespace pillion::unwind
