// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "abi/pillion_abi.h"

namespace pillion::shim {

struct CodeLook;
struct Interpreter;
class PythonCodes;
class ReadablePages;

// The frames of one launch, leaf first. 4 KiB, on the launching thread's stack.
struct PythonStack {
  std::uint32_t count;
  std::uint32_t flags;  // PILLION_SNAPSHOT_PYTHON and its like
  pillion_python_frame frames[PILLION_PYTHON_FRAMES_MAX];
};

// Walks the calling thread's chain and gives each code object its number. No frames and no flags where there
// is no Python.
void collect_python(const CodeLook& look, PythonCodes& codes, PythonStack* out);

// A word for the innermost instruction, 0 without Python.
[[nodiscard]] std::uint64_t innermost_python(const Interpreter& interpreter, ReadablePages& pages,
                                             PythonCodes& codes);

}  // namespace pillion::shim
