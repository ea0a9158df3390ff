// SPDX-License-Identifier: Apache-2.0
#include "python_text.h"

#include <cstring>

namespace pillion::shim {
namespace {

// The same in all versions: PyObject, PyVarObject, PyASCIIObject.
constexpr std::uint64_t kTypeAt = 8;
constexpr std::uint64_t kLengthAt = 16;
constexpr std::uint64_t kStateAt = 32;
constexpr std::uint64_t kBytesDataAt = 32;
constexpr std::uint32_t kKindShift = 2;
constexpr std::uint32_t kCompact = 1u << 5;
constexpr std::uint32_t kAscii = 1u << 6;
// What a name, a path or a line table may have; more is not one.
constexpr std::uint64_t kBytesMax = std::uint64_t{16} << 20;

constexpr PythonText kUnreadable{0, 0, 0, false};
constexpr std::uint32_t kReplacement = 0xfffd;

bool all_readable(ReadablePages& pages, std::uint64_t at, std::uint64_t bytes) {
  while (bytes > 0) {
    const std::uint64_t in_page = ReadablePages::kPage - at % ReadablePages::kPage;
    const std::uint64_t now = bytes < in_page ? bytes : in_page;
    if (!pages.readable(at, now)) return false;
    at += now;
    bytes -= now;
  }
  return true;
}

PILLION_RAW bool is_object(ReadablePages& pages, std::uint64_t object, std::uint64_t type) {
  return (object & 7) == 0 && pages.readable(object, 40) && load<std::uint64_t>(object + kTypeAt) == type;
}

PILLION_RAW std::uint32_t character(const PythonText& text, std::uint64_t index) {
  std::uint32_t value = 0;
  switch (text.width) {
    case 1:
      value = load<std::uint8_t>(text.data + index);
      break;
    case 2:
      value = load<std::uint16_t>(text.data + 2 * index);
      break;
    default:
      value = load<std::uint32_t>(text.data + 4 * index);
      break;
  }
  const bool surrogate = value >= 0xd800 && value < 0xe000;
  return surrogate || value > 0x10ffff ? kReplacement : value;
}

std::uint32_t encoded_bytes(std::uint32_t value) {
  return value < 0x80 ? 1 : value < 0x800 ? 2 : value < 0x10000 ? 3 : 4;
}

void encode(std::uint32_t value, std::uint32_t bytes, std::uint8_t* to) {
  constexpr std::uint8_t kLead[] = {0, 0, 0xc0, 0xe0, 0xf0};
  for (std::uint32_t at = bytes; at-- > 1; value >>= 6)
    to[at] = static_cast<std::uint8_t>(0x80 | (value & 0x3f));
  to[0] = static_cast<std::uint8_t>(kLead[bytes] | value);
}

}  // namespace

PILLION_RAW PythonText read_str(const Interpreter& interpreter, ReadablePages& pages, std::uint64_t object) {
  if (!is_object(pages, object, interpreter.text_type)) return kUnreadable;
  const auto state = load<std::uint32_t>(object + kStateAt);
  const std::uint32_t kind = state >> kKindShift & 7;
  if ((state & kCompact) == 0 || (kind != 1 && kind != 2 && kind != 4)) return kUnreadable;
  const bool ascii = (state & kAscii) != 0;
  const PythonOffsets& table = *interpreter.offsets;
  const PythonText text{object + (ascii ? table.text_ascii : table.text_other),
                        load<std::uint64_t>(object + kLengthAt), kind, ascii};
  if (text.length > kBytesMax || (ascii && kind != 1)) return kUnreadable;
  return all_readable(pages, text.data, text.bytes()) ? text : kUnreadable;
}

PILLION_RAW PythonText read_bytes(const Interpreter& interpreter, ReadablePages& pages,
                                  std::uint64_t object) {
  if (!is_object(pages, object, interpreter.bytes_type)) return kUnreadable;
  const PythonText text{object + kBytesDataAt, load<std::uint64_t>(object + kLengthAt), 1, false};
  if (text.length > kBytesMax) return kUnreadable;
  return all_readable(pages, text.data, text.bytes()) ? text : kUnreadable;
}

std::uint32_t utf8_bytes(const PythonText& text, std::uint32_t most, bool* cut) {
  if (text.ascii && text.length <= most) return static_cast<std::uint32_t>(text.length);
  std::uint32_t total = 0;
  for (std::uint64_t at = 0; at < text.length && text.width != 0; ++at) {
    const std::uint32_t one = encoded_bytes(character(text, at));
    if (total + one > most) {
      *cut = true;
      break;
    }
    total += one;
  }
  return total;
}

void write_utf8(const PythonText& text, std::uint8_t* to, std::uint32_t bytes) {
  std::uint32_t done = 0;
  for (std::uint64_t at = 0; done < bytes && at < text.length; ++at) {
    const std::uint32_t value = character(text, at);
    const std::uint32_t one = encoded_bytes(value);
    if (done + one > bytes) break;
    encode(value, one, to + done);
    done += one;
  }
}

PILLION_RAW std::uint64_t hash_text(const PythonText& text, std::uint64_t hash) {
  std::uint64_t left = text.bytes();
  hash = mix(hash, left << 3 | text.width);
  std::uint64_t at = text.data;
  for (; left >= 8; at += 8, left -= 8) hash = mix(hash, load<std::uint64_t>(at));
  std::uint64_t rest = 0;
  for (; left > 0; ++at, --left) rest = rest << 8 | load<std::uint8_t>(at);
  return mix(hash, rest);
}

}  // namespace pillion::shim
