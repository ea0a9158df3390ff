// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace pillion::unwind {

// How the canonical frame address of a row comes about.
enum class CfaRule : std::uint8_t {
  none,       // no unwind information at this address
  rsp,        // rsp + cfa_offset
  rbp,        // rbp + cfa_offset
  deref_rbp,  // the value at rbp + cfa_offset: functions that realign their stack
  plt,        // rsp + 8, or + 16 from byte cfa_offset of a 16-byte PLT entry on
  slow        // number cfa_offset of the owner's slow rules
};

enum class RbpRule : std::uint8_t {
  same,
  at_cfa,  // saved at CFA + rbp_offset
  at_rbp,  // saved at rbp + rbp_offset: functions that realign their stack
  undefined
};

// What is true of the caller's registers at one code address, in all but the slow rows: return address at CFA
// - 8, caller's rsp = CFA.
struct Row {
  std::int32_t cfa_offset = 0;
  std::int16_t rbp_offset = 0;
  CfaRule cfa = CfaRule::none;
  RbpRule rbp : 2 = RbpRule::same;
  bool root : 1 = false;     // the return address is undefined: outermost function
  bool signal : 1 = false;   // a signal frame: its caller was interrupted, not in a call
  bool planted : 1 = false;  // none here, but a function starts at the next byte
  bool operator==(const Row&) const = default;
};
static_assert(sizeof(Row) == 8);

}  // namespace pillion::unwind
