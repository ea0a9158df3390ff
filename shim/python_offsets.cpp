// SPDX-License-Identifier: Apache-2.0
#include "python_offsets.h"

#include <cstring>

namespace pillion::shim {
namespace {

// Where _Py_DebugOffsets has the same number, in 3.13 and in 3.14.
struct Published {
  const char* name;
  std::uint16_t PythonOffsets::*field;
  std::uint16_t at_3_13;
  std::uint16_t at_3_14;
};

constexpr Published kPublished[] = {
    {"current_frame", &PythonOffsets::thread_frame, 184, 208},
    {"previous", &PythonOffsets::frame_previous, 232, 256},
    {"executable", &PythonOffsets::frame_code, 240, 264},
    {"instr_ptr", &PythonOffsets::frame_instruction, 248, 272},
    {"owner", &PythonOffsets::frame_owner, 264, 288},
    {"filename", &PythonOffsets::code_filename, 280, 320},
    {"qualname", &PythonOffsets::code_name, 296, 336},
    {"linetable", &PythonOffsets::code_lines, 304, 344},
    {"firstlineno", &PythonOffsets::code_first_line, 312, 352},
    {"co_code_adaptive", &PythonOffsets::code_bytecode, 344, 384},
    {"asciiobject_size", &PythonOffsets::text_ascii, 560, 640},
};

std::uint64_t word(const std::uint8_t* at) {
  std::uint64_t value = 0;
  std::memcpy(&value, at, sizeof value);
  return value;
}

}  // namespace

const PythonOffsets* python_offsets(std::uint32_t version) {
  for (const PythonOffsets& table : kPythonTables) {
    if (table.version == version) return &table;
  }
  return nullptr;
}

PublishedOffsets check_published_offsets(const PythonOffsets& table, std::uint32_t full_version,
                                         const std::uint8_t* runtime, const char** field) {
  *field = "";
  if (table.version < 0x030d) return PublishedOffsets::agree;  // it publishes none
  if (std::memcmp(runtime, "xdebugpy", 8) != 0) return PublishedOffsets::none;
  if (word(runtime + 8) != full_version) return PublishedOffsets::other_version;
  if (word(runtime + 16) != 0) return PublishedOffsets::free_threaded;
  for (const Published& entry : kPublished) {
    const std::uint16_t at = table.version == 0x030d ? entry.at_3_13 : entry.at_3_14;
    if (word(runtime + at) == table.*entry.field) continue;
    *field = entry.name;
    return PublishedOffsets::differ;
  }
  return PublishedOffsets::agree;
}

}  // namespace pillion::shim
