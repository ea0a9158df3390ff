// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

// Sizes of activity records by the library's version (SIMGPU_CUPTI_VERSION, the value of cuptiGetVersion).
// Known for 18 (11.8), 26 (12.8), 28 (12.9U1) and 130001 (13.0U1) from records of the real libraries;
// versions between take the layout of the nearest older toolkit, as NVIDIA's headers give it.
namespace simgpu {

std::uint32_t cupti_version();
std::size_t record_size(std::uint32_t kind);  // 0: a kind that the double makes no records of
bool kind_exists(std::uint32_t kind);         // in this version

// Writes `value` at `offset` unless that lies past the record's end in this version.
template <class T>
void put_field(std::uint8_t* record, std::size_t size, std::size_t offset, T value) {
  if (offset + sizeof value <= size) __builtin_memcpy(record + offset, &value, sizeof value);
}

template <class T>
T get_field(const std::uint8_t* record, std::size_t offset) {
  T value;
  __builtin_memcpy(&value, record + offset, sizeof value);
  return value;
}

// Where a record of this kind has its start; its end follows 8 bytes later. 0: no stamps.
std::size_t start_offset(std::uint32_t kind);

}  // namespace simgpu
