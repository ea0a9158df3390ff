// SPDX-License-Identifier: Apache-2.0
#include "symbolize/python_lines.h"

#include <limits>

namespace pillion::symbolize {
namespace {

constexpr std::uint16_t kPairs = 0x030a;      // 3.10
constexpr std::uint16_t kLocations = 0x030b;  // 3.11

// Lines are added up in 64 bits: a table of any length cannot overflow them.
std::uint32_t as_line(std::int64_t line) {
  return line > 0 && line <= std::numeric_limits<std::int32_t>::max() ? static_cast<std::uint32_t>(line) : 0;
}

std::int64_t signed_byte(std::byte byte) { return static_cast<std::int8_t>(byte); }

// Pairs of an unsigned step in bytes and a signed step in lines: a line holds from its pair's address on.
std::uint32_t line_by_steps(const PythonLineTable& table, std::int64_t offset) {
  std::int64_t address = 0;
  std::int64_t line = table.first_line;
  for (std::size_t at = 0; at + 1 < table.bytes.size(); at += 2) {
    address += std::to_integer<std::int64_t>(table.bytes[at]);
    if (address > offset) break;
    line += signed_byte(table.bytes[at + 1]);
  }
  return as_line(line);
}

// Pairs of a length in bytes and a signed step in lines, which comes first; -128: these bytes have no line.
std::uint32_t line_by_ranges(const PythonLineTable& table, std::int64_t offset) {
  constexpr std::int64_t kNoLine = -128;
  std::int64_t end = 0;
  std::int64_t line = table.first_line;
  for (std::size_t at = 0; at + 1 < table.bytes.size(); at += 2) {
    end += std::to_integer<std::int64_t>(table.bytes[at]);
    const std::int64_t step = signed_byte(table.bytes[at + 1]);
    if (step != kNoLine) line += step;
    if (offset < end) return step == kNoLine ? 0 : as_line(line);
  }
  return 0;
}

// Six bits a byte, the lowest first; bit 6 says that more follow. Six bytes hold any line, and more would let
// the sum of a forged table overflow. What is cut reads as zeros.
std::uint64_t read_varint(std::span<const std::byte> bytes) {
  std::uint64_t value = 0;
  for (unsigned shift = 0; !bytes.empty() && shift < 36; shift += 6, bytes = bytes.subspan(1)) {
    const auto byte = std::to_integer<std::uint64_t>(bytes[0]);
    value |= (byte & 63) << shift;
    if ((byte & 64) == 0) break;
  }
  return value;
}

std::int64_t read_signed_varint(std::span<const std::byte> bytes) {
  const std::uint64_t value = read_varint(bytes);
  const auto magnitude = static_cast<std::int64_t>(value >> 1);
  return (value & 1) != 0 ? -magnitude : magnitude;
}

// Entries begin with a byte whose top bit is set: a code of four bits and the number of code units less one.
std::uint32_t line_by_locations(const PythonLineTable& table, std::int64_t offset) {
  enum Code : unsigned { one_line_0 = 10, one_line_2 = 12, no_columns = 13, with_columns = 14, none = 15 };
  constexpr std::int64_t kUnitBytes = 2;
  std::int64_t end = 0;
  std::int64_t line = table.first_line;
  for (auto rest = table.bytes; !rest.empty();) {
    const auto first = std::to_integer<unsigned>(rest[0]);
    const unsigned code = first >> 3 & 15;
    const auto body = rest.subspan(1);
    if (code == no_columns || code == with_columns) line += read_signed_varint(body);
    if (code >= one_line_0 && code <= one_line_2) line += code - one_line_0;
    end += ((first & 7) + 1) * kUnitBytes;
    if (offset < end) return code == none ? 0 : as_line(line);
    do {
      rest = rest.subspan(1);
    } while (!rest.empty() && (std::to_integer<unsigned>(rest[0]) & 128) == 0);
  }
  return 0;
}

}  // namespace

std::uint32_t python_line(const PythonLineTable& table, std::int32_t offset) {
  if (offset < 0) return as_line(table.first_line);
  if (table.version < kPairs) return line_by_steps(table, offset);
  if (table.version < kLocations) return line_by_ranges(table, offset);
  return line_by_locations(table, offset);
}

}  // namespace pillion::symbolize
