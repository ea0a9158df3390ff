// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "python_find.h"
#include "readable_pages.h"

namespace pillion::shim {

// The characters of a str or the bytes of a bytes object, as they lie in the interpreter's memory; all of it
// has been found readable. Valid as long as something keeps the object alive.
struct PythonText {
  std::uint64_t data;
  std::uint64_t length;  // characters
  std::uint32_t width;   // bytes of one: 1 (Latin-1), 2 or 4; 0: could not be read
  bool ascii;

  [[nodiscard]] std::uint64_t bytes() const { return length * width; }
};

[[nodiscard]] PythonText read_str(const Interpreter& interpreter, ReadablePages& pages, std::uint64_t object);
[[nodiscard]] PythonText read_bytes(const Interpreter& interpreter, ReadablePages& pages,
                                    std::uint64_t object);

// Bytes that the text takes as UTF-8, at most `most`: then it ends before a character. `cut` says so.
[[nodiscard]] std::uint32_t utf8_bytes(const PythonText& text, std::uint32_t most, bool* cut);

// Writes exactly that many. A lone surrogate becomes U+FFFD.
void write_utf8(const PythonText& text, std::uint8_t* to, std::uint32_t bytes);

// Continues `hash` with the object's bytes.
[[nodiscard]] std::uint64_t hash_text(const PythonText& text, std::uint64_t hash);

// For hashes of few words; the result's high bits are the good ones.
[[nodiscard]] inline std::uint64_t mix(std::uint64_t hash, std::uint64_t word) {
  hash = (hash ^ word) * 0xbf58'476d'1ce4'e5b9u;
  return hash ^ hash >> 32;
}

}  // namespace pillion::shim
