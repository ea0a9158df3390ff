// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "records.h"

namespace pillion::unwind {

// What the splice asks about native code; a fake in tests.
class InterpreterCode {
 public:
  virtual ~InterpreterCode() = default;
  // A file that holds nothing but CPython: libpython3.11.so.1.0, python3.11. Not a program that embeds it.
  virtual bool is_interpreter(std::uint32_t file) = 0;
  // No shared library: one may be linked into it.
  virtual bool is_program(std::uint32_t file) = 0;
  // Code of _PyEval_EvalFrameDefault, where the file has symbols that say so.
  virtual bool is_eval_loop(const UnwoundFrame& frame) = 0;
  // greenlet's extension module, which moves C stacks to the heap and back.
  virtual bool is_greenlet(std::uint32_t file) = 0;
};

struct PythonSplice {
  std::uint64_t frames = 0;      // Python frames in the stack
  std::uint64_t entries = 0;     // runs of them that one native frame stands for
  std::uint64_t unplaced = 0;    // of the runs, those whose native frame was not found
  std::uint64_t evals_left = 0;  // native frames of the interpreter's loop that no Python frame came for
  bool greenlet = false;         // the stack is one of greenlet's, and ends where that begins
};

// A native stack and where each of its frames lies: frame i has the bytes from stack_pointers[i] up to
// stack_pointers[i + 1]. One more stack pointer than frames where the last one's end is known, too.
struct NativeStack {
  std::span<const UnwoundFrame> frames;  // leaf first
  std::span<const std::uint64_t> stack_pointers;
};

// The stack with the snapshot's Python frames in the place of the interpreter's own. A native frame of its
// loop goes for the run of Python frames that it executes:
//  - the run's entry address lies within the native frame, which needs no symbol;
//  - without an entry (CPython 3.9, or a run whose root side was cut) it is the next frame of
//    _PyEval_EvalFrameDefault by symbol.
// A run without a place stands where the order of the runs has it, at the root side when none follows, behind
// FrameKind::python_unplaced. A frame of the loop that no run came for stays what it is: its Python frames
// are another interpreter's, which FrameKind::python_cut says before the first of such frames between two
// runs. Where runs were placed, the interpreter's other frames (calls, argument handling, start-up) are left
// out; those of extension modules, libffi and programs that embed it stay.
//
// A greenlet's chain begins at its own first function. What lies on the stack beyond the native frame that
// called that is another greenlet's, and need not be where it was when this one began: it is left out.
[[nodiscard]] std::vector<UnwoundFrame> splice_python(const NativeStack& native, const RawSnapshot& snapshot,
                                                      InterpreterCode& code, PythonSplice& result);

}  // namespace pillion::unwind
