// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

namespace pillion::shim {

// Where CPython keeps what is read of it, in bytes, for one minor version's release builds with 64-bit
// pointers. kAbsent: the version has no such field.
struct PythonOffsets {
  static constexpr std::uint16_t kAbsent = 0xffff;

  std::uint16_t version;  // 0x030b is 3.11

  // PyThreadState
  std::uint16_t thread_frame;   // the innermost frame; absent where it hangs off the C frame
  std::uint16_t thread_cframe;  // 3.10 to 3.12: the innermost C frame (CFrame, _PyCFrame)
  std::uint16_t thread_id;      // pthread_self() of the thread

  // CFrame, _PyCFrame: one for each native frame of the interpreter's loop, on the C stack
  std::uint16_t cframe_frame;
  std::uint16_t cframe_previous;

  // PyFrameObject up to 3.10, _PyInterpreterFrame after it
  std::uint16_t frame_previous;
  std::uint16_t frame_code;
  std::uint16_t frame_instruction;  // up to 3.10 an int; after it a pointer into the code
  std::uint16_t frame_owner;
  std::uint16_t frame_is_entry;  // 3.11

  // PyCodeObject
  std::uint16_t code_first_line;
  std::uint16_t code_version;
  std::uint16_t code_filename;
  std::uint16_t code_name;  // co_qualname; co_name where there is no other
  std::uint16_t code_lines;
  std::uint16_t code_first_traceable;
  std::uint16_t code_bytecode;  // in the object itself, from 3.11

  // Characters of a str, by whether they are ASCII
  std::uint16_t text_ascii;
  std::uint16_t text_other;

  // _PyRuntimeState, up to 3.11
  std::uint16_t runtime_current;       // thread state of who holds the GIL
  std::uint16_t runtime_interpreters;  // the newest interpreter; the main one 8 bytes on

  // Bytes from the start of each structure that its fields take.
  [[nodiscard]] constexpr std::uint64_t thread_bytes() const { return thread_id + 8u; }
  [[nodiscard]] constexpr std::uint64_t cframe_bytes() const {
    return (cframe_previous != kAbsent ? cframe_previous : cframe_frame) + 8u;
  }
  [[nodiscard]] constexpr std::uint64_t frame_bytes() const {
    return frames_are_objects() ? frame_instruction + 4u : frame_owner + 1u;
  }
  [[nodiscard]] constexpr std::uint64_t code_bytes() const {
    return frames_are_objects() ? code_lines + 8u : code_bytecode;
  }

  [[nodiscard]] constexpr bool frames_are_objects() const { return version <= 0x030a; }
  [[nodiscard]] constexpr bool has_shims() const { return version >= 0x030c; }
};

struct PythonOffsetField {
  const char* name;
  std::uint16_t PythonOffsets::*field;
};

// All but the version, in the order above.
inline constexpr PythonOffsetField kPythonOffsetFields[] = {
    {"thread_frame", &PythonOffsets::thread_frame},
    {"thread_cframe", &PythonOffsets::thread_cframe},
    {"thread_id", &PythonOffsets::thread_id},
    {"cframe_frame", &PythonOffsets::cframe_frame},
    {"cframe_previous", &PythonOffsets::cframe_previous},
    {"frame_previous", &PythonOffsets::frame_previous},
    {"frame_code", &PythonOffsets::frame_code},
    {"frame_instruction", &PythonOffsets::frame_instruction},
    {"frame_owner", &PythonOffsets::frame_owner},
    {"frame_is_entry", &PythonOffsets::frame_is_entry},
    {"code_first_line", &PythonOffsets::code_first_line},
    {"code_version", &PythonOffsets::code_version},
    {"code_filename", &PythonOffsets::code_filename},
    {"code_name", &PythonOffsets::code_name},
    {"code_lines", &PythonOffsets::code_lines},
    {"code_first_traceable", &PythonOffsets::code_first_traceable},
    {"code_bytecode", &PythonOffsets::code_bytecode},
    {"text_ascii", &PythonOffsets::text_ascii},
    {"text_other", &PythonOffsets::text_other},
    {"runtime_current", &PythonOffsets::runtime_current},
    {"runtime_interpreters", &PythonOffsets::runtime_interpreters},
};

inline constexpr std::uint16_t kNo = PythonOffsets::kAbsent;

// Rows as in PythonOffsets: version; thread; C frame; frame; code; str; runtime. Compared with the headers of
// each version that a machine has by tests/integration/test_python_frames.py.
inline constexpr PythonOffsets kPythonTables[] = {
    {0x0309, 24,  kNo, 176, kNo, kNo, 24,  32, 104, kNo, kNo,
     40,     kNo, 104, 112, 120, kNo, kNo, 48, 72,  568, 32},
    {0x030a, 24, 48, 176, kNo, 8, 24, 32, 96, kNo, kNo, 40, kNo, 104, 112, 120, kNo, kNo, 48, 72, 568, 32},
    {0x030b, kNo, 56, 152, 8, 16, 48, 32, 56, 69, 68, 72, kNo, 112, 128, 136, 168, 184, 48, 72, 576, 40},
    {0x030c, kNo, 56, 136, 0, kNo, 8, 0, 56, 70, kNo, 68, 92, 112, 128, 136, 176, 192, 40, 56, kNo, kNo},
    {0x030d, 72, kNo, 152, kNo, kNo, 8, 0, 56, 70, kNo, 68, 92, 112, 128, 136, 184, 200, 40, 56, kNo, kNo},
    {0x030e, 72, kNo, 152, kNo, kNo, 8, 0, 56, 74, kNo, 68, 92, 112, 128, 136, 192, 208, 40, 56, kNo, kNo},
};

inline constexpr std::size_t kPythonVersions = sizeof(kPythonTables) / sizeof(kPythonTables[0]);

// The table of a minor version ((major << 8) | minor), or null when its structures are not known.
[[nodiscard]] const PythonOffsets* python_offsets(std::uint32_t version);

enum class PublishedOffsets : std::uint8_t { agree, none, other_version, free_threaded, differ };

// Compares a table with what the interpreter says of itself at the start of _PyRuntime (_Py_DebugOffsets,
// from 3.13 on). `field` names the first that differs. `runtime` must be readable for kPublishedBytes.
inline constexpr std::uint32_t kPublishedBytes = 768;
[[nodiscard]] PublishedOffsets check_published_offsets(const PythonOffsets& table, std::uint32_t full_version,
                                                       const std::uint8_t* runtime, const char** field);

}  // namespace pillion::shim
