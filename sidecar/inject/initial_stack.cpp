// SPDX-License-Identifier: Apache-2.0
#include "inject/initial_stack.h"

#include <elf.h>

namespace pillion::inject {

std::optional<bool> secure_by_initial_stack(const TargetMemory& memory, std::uint64_t start_stack) {
  constexpr std::uint64_t kArgumentsMax = 1u << 20;
  constexpr std::size_t kVariablesMax = 65'536;
  constexpr std::size_t kEntriesMax = 64;
  std::uint64_t arguments = 0;
  if (start_stack <= 1 || !memory.read(start_stack, arguments) || arguments > kArgumentsMax)
    return std::nullopt;
  std::uint64_t at = start_stack + (1 + arguments + 1) * sizeof(std::uint64_t);
  std::uint64_t word = 0;
  std::size_t seen = 0;
  do {
    if (!memory.read(at, word) || ++seen > kVariablesMax) return std::nullopt;
    at += sizeof(word);
  } while (word != 0);
  // unsetenv moves the others up, and leaves one end more.
  while (memory.read(at, word) && word == 0 && ++seen <= kVariablesMax) at += sizeof(word);
  for (std::size_t i = 0; i < kEntriesMax; ++i, at += sizeof(Elf64_auxv_t)) {
    Elf64_auxv_t entry;
    if (!memory.read(at, entry) || entry.a_type == AT_NULL) return std::nullopt;
    if (entry.a_type == AT_SECURE) return entry.a_un.a_val != 0;
  }
  return std::nullopt;
}

}  // namespace pillion::inject
