// SPDX-License-Identifier: Apache-2.0
#include "stack_bounds.h"

#include <sys/auxv.h>

#include "arch.h"
#include "proc_maps.h"

namespace pillion::shim {

bool find_stack_bounds(std::uint64_t sp, bool main_thread, StackBounds* out) {
  ProcMapping mapping;
  if (!find_mapping(sp, &mapping)) return false;
  bool found = false;
  if (main_thread) {
    // The kernel puts these 16 bytes at the top of the stack that it makes for a program.
    const std::uint64_t on_main_stack = getauxval(AT_RANDOM);
    found = on_main_stack >= sp && on_main_stack < mapping.end;
    *out = {mapping.start, mapping.end};
  } else {
    const std::uint64_t control_block = arch::thread_pointer();
    found = control_block > sp && control_block < mapping.end;
    *out = {mapping.start, control_block & ~(arch::kStackAlignment - 1)};
  }
  return found;
}

}  // namespace pillion::shim
