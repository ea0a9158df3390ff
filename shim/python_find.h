// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "python_offsets.h"

namespace pillion::shim {

// What the launch path needs of the interpreter in this process. Filled once and never changed: late threads
// may hold it.
struct Interpreter {
  const PythonOffsets* offsets;
  void* (*this_thread_state)();  // PyGILState_GetThisThreadState: needs no GIL
  int (*is_finalizing)();
  std::uint64_t runtime;  // addresses: of _PyRuntime and of the types
  std::uint64_t code_type;
  std::uint64_t frame_type;
  std::uint64_t text_type;
  std::uint64_t bytes_type;
};

struct PythonFinding {
  std::uint32_t state;  // enum pillion_python_state
  std::uint32_t version;
  char text[224];  // why not; empty when it is in force
};

// Looks for CPython in this process: linked in or loaded globally, else in a library whose name has "python"
// in it and that is loaded already. True: `out` is complete, and the library stays loaded from now on.
// Capture thread: takes the dynamic linker's lock.
[[nodiscard]] bool find_python(Interpreter* out, PythonFinding* finding);

}  // namespace pillion::shim
