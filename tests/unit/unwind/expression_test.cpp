// SPDX-License-Identifier: Apache-2.0
#include "unwind/expression.h"

#include <dwarf.h>

#include <catch2/catch_test_macros.hpp>
#include <cstring>
#include <vector>

using namespace pillion::unwind;

namespace {

Dwarf_Op op(std::uint8_t atom, std::uint64_t number = 0, std::uint64_t offset = 0) {
  Dwarf_Op made{};
  made.atom = atom;
  made.number = number;
  made.offset = offset;
  return made;
}

struct Fixture {
  std::vector<std::byte> bytes = std::vector<std::byte>(32);
  Registers registers;
  Fixture() {
    const std::uint64_t words[] = {11, 22, 33, 44};
    std::memcpy(bytes.data(), words, sizeof words);
    registers.set(PILLION_REG_RSP, 0x1000);
    registers.set(PILLION_REG_RIP, 0x40001b);
  }
  ExpressionValue run(const std::vector<Dwarf_Op>& operations) {
    return evaluate(operations, registers, StackView(0x1000, bytes), 0x2000);
  }
};

}  // namespace

TEST_CASE("expressions of frame information evaluate") {
  Fixture fixture;
  CHECK(fixture.run({op(DW_OP_breg7, 8), op(DW_OP_deref)}).value == 22);
  CHECK(fixture.run({op(DW_OP_call_frame_cfa), op(DW_OP_lit8), op(DW_OP_minus)}).value == 0x1ff8);
  const auto plt =
      fixture.run({op(DW_OP_breg7, 8), op(DW_OP_breg16), op(DW_OP_lit15), op(DW_OP_and), op(DW_OP_lit11),
                   op(DW_OP_ge), op(DW_OP_lit3), op(DW_OP_shl), op(DW_OP_plus)});
  CHECK(plt.value == 0x1010);
  CHECK(fixture.run({op(DW_OP_lit1), op(DW_OP_lit2), op(DW_OP_swap), op(DW_OP_minus)}).value == 1);
  CHECK(fixture.run({op(DW_OP_const1s, static_cast<std::uint64_t>(-5)), op(DW_OP_abs)}).value == 5);
}

TEST_CASE("what cannot be evaluated says why") {
  Fixture fixture;
  CHECK(fixture.run({op(DW_OP_breg10)}).status == ExpressionStatus::unknown_register);
  CHECK(fixture.run({op(DW_OP_breg3)}).status == ExpressionStatus::unknown_register);
  const auto unreadable = fixture.run({op(DW_OP_breg7, 25), op(DW_OP_deref)});
  CHECK(unreadable.status == ExpressionStatus::unreadable);
  CHECK(unreadable.address == 0x1019);
  CHECK(fixture.run({}).status == ExpressionStatus::unsupported);
  CHECK(fixture.run({op(DW_OP_plus)}).status == ExpressionStatus::unsupported);
  CHECK(fixture.run({op(DW_OP_lit1), op(DW_OP_plus)}).status == ExpressionStatus::unsupported);
  CHECK(fixture.run({op(DW_OP_addr)}).status == ExpressionStatus::unsupported);
  CHECK(fixture.run(std::vector<Dwarf_Op>(100, op(DW_OP_lit1))).status == ExpressionStatus::unsupported);
}

TEST_CASE("branches go where they say, and a loop ends") {
  Fixture fixture;
  // lit1; bra over (3 bytes on); lit9 at 4; lit7 at 5
  CHECK(fixture.run({op(DW_OP_lit1, 0, 0), op(DW_OP_bra, 1, 1), op(DW_OP_lit9, 0, 4), op(DW_OP_lit7, 0, 5)})
            .value == 7);
  const auto loop = fixture.run({op(DW_OP_nop, 0, 0), op(DW_OP_skip, static_cast<std::uint64_t>(-4), 1)});
  CHECK(loop.status == ExpressionStatus::unsupported);
}
