// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "python_offsets.h"
#include "readable_pages.h"

// A cheap look at what a code object points to, for versions in which nothing else tells it from another one
// that was at its address. In the walk's inner loop: no calls, no branch that goes now here and now there.
namespace pillion::shim {

// PyASCIIObject and PyBytesObject, in all versions.
namespace python_object {
inline constexpr std::uint64_t kLength = 16;
inline constexpr std::uint64_t kHash = 24;  // of a str, -1 until it was wanted
inline constexpr std::uint64_t kState = 32;
inline constexpr std::uint64_t kBytesData = 32;
inline constexpr std::uint32_t kKindShift = 2;
inline constexpr std::uint32_t kAscii = 1u << 6;
}  // namespace python_object

[[gnu::always_inline]] inline std::uint64_t add_word(std::uint64_t sum, std::uint64_t word) {
  return (sum << 11 | sum >> 53) + word;
}

// Five words of these bytes, from the first to the last: all of up to 40, and the same work for any number.
// Objects end with a 0 and are padded to 8.
[[gnu::always_inline]] inline std::uint64_t add_sample(std::uint64_t sum, std::uint64_t data,
                                                       std::uint64_t bytes) {
  sum = add_word(sum, bytes);
  if (bytes < 8) [[unlikely]]
    return add_word(sum, load<std::uint64_t>(data));
  const std::uint64_t last = bytes - 8;
  const std::uint64_t step = last / 4;
  sum = add_word(sum, load<std::uint64_t>(data));
  sum = add_word(sum, load<std::uint64_t>(data + step));
  sum = add_word(sum, load<std::uint64_t>(data + 2 * step));
  sum = add_word(sum, load<std::uint64_t>(data + 3 * step));
  return add_word(sum, load<std::uint64_t>(data + last));
}

// Only for an object whose pointers are those of one that was met there: they were looked at then. Names are
// interned, so that their hash is there; paths are not.
[[gnu::always_inline]] inline std::uint64_t deep_check_of(const PythonOffsets& table, std::uint64_t code) {
  using namespace python_object;
  const auto name = load<std::uint64_t>(code + table.code_name);
  const auto file = load<std::uint64_t>(code + table.code_filename);
  const auto lines = load<std::uint64_t>(code + table.code_lines);
  const auto state = load<std::uint32_t>(file + kState);
  const std::uint64_t path = file + ((state & kAscii) != 0 ? table.text_ascii : table.text_other);
  std::uint64_t sum = add_word(load<std::uint64_t>(name + kHash), load<std::uint64_t>(name + kLength));
  sum = add_sample(sum, path, load<std::uint64_t>(file + kLength) * (state >> kKindShift & 7));
  return add_sample(sum, lines + kBytesData, load<std::uint64_t>(lines + kLength));
}

}  // namespace pillion::shim
