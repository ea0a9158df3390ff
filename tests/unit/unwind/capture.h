// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "records.h"

namespace pillion::test {

// A frame as the compiler's own unwinder sees it, its code address reduced to the file's by the dynamic
// linker's word.
struct ExpectedFrame {
  std::uint64_t pc = 0;
  std::uint64_t address = 0;  // pc minus the object's load address
  bool is_return = true;
};

struct Capture {
  RawSnapshot snapshot;
  std::vector<ExpectedFrame> expected;  // frame 0 is the capturing function, whose address differs
};

// Takes registers and the stack up to `stack_high` of the calling thread as the shim does.
void capture_here(std::uint64_t stack_high, Capture& capture);

// Highest address of the calling thread's own stack.
std::uint64_t own_stack_high();

// The frames of the caller and up by _Unwind_Backtrace, without allocating. Returns how many.
std::size_t backtrace_raw(std::span<ExpectedFrame> frames);

// Fills in ExpectedFrame::address.
void locate(std::span<ExpectedFrame> frames);

// Copies target memory of this process without touching it: stays clear of sanitizers.
bool copy_memory(std::uint64_t address, std::span<std::byte> into);

std::string own_maps();

}  // namespace pillion::test
