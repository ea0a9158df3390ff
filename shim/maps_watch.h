// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

namespace pillion::shim {

// The generation of the executable mappings, as last read by the control thread; 0 before the first reading.
// Any thread, any signal context.
[[nodiscard]] std::uint32_t maps_generation();

// Capture thread only: whether a library came or went since the last call (the first call says yes). Takes
// the loader's lock, which a thread inside dlopen may hold; hence never on the control thread or one of the
// program's.
[[nodiscard]] bool libraries_changed();

struct MapsText {
  const char* text;  // whole lines of /proc/self/maps; null when it could not be read
  std::size_t bytes;
  std::uint32_t generation;
};

// Control thread only: reads /proc/self/maps. The generation grows when the executable lines differ from
// those of the reading before. The text stays until the next call or release_maps(). At most 16 MiB; the rest
// is cut.
[[nodiscard]] MapsText read_maps();

// Control thread only: gives the text's memory back.
void release_maps();

// The largest number of bytes of `left` that holds whole lines and is at most `most`.
[[nodiscard]] std::size_t whole_lines(const char* text, std::size_t left, std::size_t most);

}  // namespace pillion::shim
