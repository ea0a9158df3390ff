// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace pillion::symbolize {

// One Python code object's line table, as struct pillion_python_code has it.
struct PythonLineTable {
  std::uint16_t version = 0;     // 0x030b: 3.11
  std::uint32_t first_line = 0;  // co_firstlineno
  std::span<const std::byte> bytes;
};

// The line of the instruction at `offset` bytes into the bytecode, as the interpreter's own PyCode_Addr2Line
// has it: the first line for a negative offset, 0 for code that belongs to no line, or where the table (any
// bytes) does not say.
//
// Up to 3.9 co_lnotab (Objects/lnotab_notes.txt), 3.10 co_linetable as pairs (PEP 626), from 3.11 on the
// location table (Objects/locations.md). An unknown newer version is read as the newest known.
[[nodiscard]] std::uint32_t python_line(const PythonLineTable& table, std::int32_t offset);

}  // namespace pillion::symbolize
