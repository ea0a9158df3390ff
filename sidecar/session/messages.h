// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <variant>

#include "abi/pillion_abi.h"
#include "base/capture_settings.h"
#include "base/result.h"

// The control messages as values. Text is printable (base/printable.h) except that of maps, which must stay
// what the kernel wrote. Every field is the workload's word.
namespace pillion::session {

struct Hello {
  std::uint16_t minor = 0;
  std::uint32_t pid = 0;  // in the shim's own PID namespace
  std::uint32_t uid = 0;
  std::uint64_t pid_namespace = 0;
  std::uint64_t start_time = 0;  // clock ticks since boot
  std::uint64_t now_ns = 0;
  std::uint32_t flags = 0;           // enum pillion_hello_flags
  std::uint32_t driver_version = 0;  // 0: unknown
  std::uint32_t cupti_version = 0;   // 0: no library loaded
  std::string comm;
  std::string shim_version;
  std::string exe;
  std::string cupti_path;

  [[nodiscard]] bool has_context() const { return (flags & PILLION_HELLO_CONTEXT) != 0; }
  // Of whomever: a session of an earlier peer may still be ending.
  [[nodiscard]] bool armed() const { return (flags & PILLION_HELLO_ARMED) != 0; }
  // The program waits in cuInit for START.
  [[nodiscard]] bool held() const { return (flags & PILLION_HELLO_HELD) != 0; }
};

struct Busy {
  std::uint32_t holder_pid = 0;  // 0: outside the shim's PID namespace
};

struct Armed {
  std::uint64_t generation = 0;
  std::uint64_t armed_ns = 0;
  CaptureSettings settings;       // in force
  bool tells_everything = false;  // a shim of 1.0 says nothing of lease, finalize and rings
  std::uint32_t driver_version = 0;
  std::uint32_t cupti_version = 0;
  std::string cupti_path;
};

struct Refused {
  std::uint64_t generation = 0;
  std::uint32_t reason = 0;  // enum pillion_refusal
  std::uint32_t cupti_result = 0;
  std::string holder;
  std::string text;
};

struct Flushed {
  std::uint64_t token = 0;
  std::uint64_t begun_ns = 0;  // what had completed before is in the rings, or counted as dropped
  std::uint32_t cupti_result = 0;
};

struct Disarmed {
  std::uint64_t generation = 0;
  std::uint32_t reason = 0;   // enum pillion_disarm_reason
  std::uint32_t residue = 0;  // enum pillion_residue
  std::uint64_t disarmed_ns = 0;
  std::string text;
};

struct MapsPiece {
  std::uint32_t generation = 0;
  std::uint32_t index = 0;
  bool last = false;
  std::string text;
};

struct FileReply {
  std::uint64_t request = 0;
  std::uint32_t error = 0;  // errno, 0 when an fd came along
  std::uint32_t flags = 0;  // enum pillion_file_flags
};

// Whether snapshots carry Python frames, and why not. Comes again when that changes.
struct Python {
  std::uint64_t generation = 0;  // of the session, 0 asleep
  std::uint32_t version = 0;     // as Py_Version; 0: unknown
  std::uint32_t state = 0;       // enum pillion_python_state
  std::string text;
};

// A peer of another major: nothing past the version may be read.
struct OtherMajor {
  std::uint16_t major = 0;
  std::uint16_t minor = 0;
};

struct UnknownMessage {
  std::uint32_t type = 0;
};

using Message = std::variant<Hello, Busy, Armed, Refused, Flushed, Disarmed, MapsPiece, FileReply, Python,
                             OtherMajor, UnknownMessage>;

// Reads one packet from a shim. Larger than expected is a newer minor and is accepted; an error says what is
// wrong.
[[nodiscard]] Result<Message> parse_message(std::span<const std::byte> packet);

// For people; numbers that this version does not know are named by number.
[[nodiscard]] std::string refusal_name(std::uint32_t reason);
[[nodiscard]] std::string disarm_reason_name(std::uint32_t reason);
[[nodiscard]] std::string residue_name(std::uint32_t residue);
[[nodiscard]] std::string python_state_name(std::uint32_t state);
[[nodiscard]] std::string python_version_name(std::uint32_t version);  // "3.11.2", "3.14.0rc1"; "" for 0

// "3.11.2, in force", "none in this process": one line for people.
[[nodiscard]] std::string python_summary(const Python& python);

// "1.0"
[[nodiscard]] std::string version_name(std::uint16_t major, std::uint16_t minor);

// A message struct of the wire with its header filled in.
template <typename Wire>
[[nodiscard]] Wire make_message(std::uint32_t type) {
  Wire message{};
  message.header = {PILLION_ABI_MAGIC, PILLION_ABI_MAJOR, PILLION_ABI_MINOR, type, sizeof(Wire)};
  return message;
}

}  // namespace pillion::session
