// SPDX-License-Identifier: Apache-2.0
#include "session/messages.h"

#include <cstring>
#include <string_view>

#include "base/printable.h"

namespace pillion::session {
namespace {

template <std::size_t N>
std::string text_of(const char (&field)[N]) {
  return printable(std::string_view(field, ::strnlen(field, N)));
}

template <typename Wire>
Result<Wire> read_as(std::span<const std::byte> packet, const char* name) {
  if (packet.size() < sizeof(Wire)) {
    return fail("read message", name,
                std::to_string(packet.size()) + " bytes, needs " + std::to_string(sizeof(Wire)));
  }
  Wire wire;
  std::memcpy(&wire, packet.data(), sizeof(wire));
  return wire;
}

Message from(const pillion_hello& wire) {
  return Hello{wire.header.minor,
               wire.pid,
               wire.uid,
               wire.pid_namespace,
               wire.start_time,
               wire.now_ns,
               wire.flags,
               wire.driver_version,
               wire.cupti_version,
               text_of(wire.comm),
               text_of(wire.shim_version),
               text_of(wire.exe),
               text_of(wire.cupti_path)};
}

Message from(const pillion_busy& wire) { return Busy{wire.holder_pid}; }

Message from(const pillion_armed& wire, bool whole) {
  const CaptureSettings settings{wire.kinds,
                                 wire.sample_permyriad,
                                 wire.sample_mib_per_s,
                                 wire.stack_bytes_max,
                                 wire.lease_ms,
                                 (wire.detach & PILLION_DISARM_FINALIZE) != 0,
                                 wire.events_rings,
                                 wire.events_ring_bytes,
                                 wire.stacks_rings,
                                 wire.stacks_ring_bytes};
  return Armed{wire.generation,    wire.armed_ns,           settings, whole, wire.driver_version,
               wire.cupti_version, text_of(wire.cupti_path)};
}

Message from(const pillion_refused& wire) {
  return Refused{wire.generation, wire.reason, wire.cupti_result, text_of(wire.holder), text_of(wire.text)};
}

Message from(const pillion_flushed& wire) { return Flushed{wire.token, wire.begun_ns, wire.cupti_result}; }

Message from(const pillion_disarmed& wire) {
  return Disarmed{wire.generation, wire.reason, wire.residue, wire.disarmed_ns, text_of(wire.text)};
}

Message from(const pillion_file& wire) { return FileReply{wire.request, wire.error, wire.flags}; }

Message from(const pillion_python& wire) {
  return Python{wire.generation, wire.version, wire.state, text_of(wire.text)};
}

template <typename Wire>
Result<Message> parse_as(std::span<const std::byte> packet, const char* name) {
  return read_as<Wire>(packet, name).map([](const Wire& wire) { return from(wire); });
}

// Its last fields came with 1.1.
Result<Message> parse_armed(std::span<const std::byte> packet) {
  if (packet.size() < PILLION_ARMED_BYTES_1_0) {
    return fail("read message", "ARMED",
                std::to_string(packet.size()) + " bytes, needs " + std::to_string(PILLION_ARMED_BYTES_1_0));
  }
  pillion_armed wire{};
  const bool whole = packet.size() >= sizeof(wire);
  std::memcpy(&wire, packet.data(), whole ? sizeof(wire) : PILLION_ARMED_BYTES_1_0);
  return from(wire, whole);
}

Result<Message> parse_maps(std::span<const std::byte> packet) {
  const auto wire = read_as<pillion_maps>(packet, "MAPS");
  if (!wire) return tl::make_unexpected(wire.error());
  const auto text = packet.subspan(sizeof(pillion_maps));
  if (wire->bytes > text.size()) {
    return fail(
        "read message", "MAPS",
        std::to_string(wire->bytes) + " bytes of text said, " + std::to_string(text.size()) + " there");
  }
  return MapsPiece{wire->generation, wire->index, wire->last != 0,
                   std::string(reinterpret_cast<const char*>(text.data()), wire->bytes)};
}

std::string name_or_number(const char* name, std::uint32_t number) {
  return name != nullptr ? name : "number " + std::to_string(number);
}

}  // namespace

Result<Message> parse_message(std::span<const std::byte> packet) {
  const auto header = read_as<pillion_message_header>(packet, "header");
  if (!header) return tl::make_unexpected(header.error());
  if (header->magic != PILLION_ABI_MAGIC) return fail("read message", "header", "wrong magic: not a shim");
  if (header->major != PILLION_ABI_MAJOR) return OtherMajor{header->major, header->minor};
  if (header->size != packet.size()) {
    return fail("read message", "header",
                "says " + std::to_string(header->size) + " bytes, has " + std::to_string(packet.size()));
  }
  switch (header->type) {
    case PILLION_HELLO:
      return parse_as<pillion_hello>(packet, "HELLO");
    case PILLION_BUSY:
      return parse_as<pillion_busy>(packet, "BUSY");
    case PILLION_ARMED:
      return parse_armed(packet);
    case PILLION_REFUSED:
      return parse_as<pillion_refused>(packet, "REFUSED");
    case PILLION_FLUSHED:
      return parse_as<pillion_flushed>(packet, "FLUSHED");
    case PILLION_DISARMED:
      return parse_as<pillion_disarmed>(packet, "DISARMED");
    case PILLION_MAPS:
      return parse_maps(packet);
    case PILLION_FILE:
      return parse_as<pillion_file>(packet, "FILE");
    case PILLION_PYTHON:
      return parse_as<pillion_python>(packet, "PYTHON");
    default:
      return UnknownMessage{header->type};
  }
}

std::string refusal_name(std::uint32_t reason) {
  const char* name = nullptr;
  switch (reason) {
    case PILLION_REFUSAL_NONE:
      name = "none";
      break;
    case PILLION_REFUSAL_VERSION:
      name = "version";
      break;
    case PILLION_REFUSAL_BAD_MESSAGE:
      name = "bad message";
      break;
    case PILLION_REFUSAL_SUBSCRIBER_HELD:
      name = "subscriber held";
      break;
    case PILLION_REFUSAL_NO_CUPTI:
      name = "no CUPTI";
      break;
    case PILLION_REFUSAL_CUPTI_MISMATCH:
      name = "CUPTI does not fit the driver";
      break;
    case PILLION_REFUSAL_CUPTI_ERROR:
      name = "CUPTI error";
      break;
    case PILLION_REFUSAL_DEADLINE:
      name = "deadline";
      break;
    case PILLION_REFUSAL_MEMORY:
      name = "memory";
      break;
    case PILLION_REFUSAL_ACCESS:
      name = "access";
      break;
    case PILLION_REFUSAL_INERT:
      name = "inert";
      break;
    default:
      break;
  }
  return name_or_number(name, reason);
}

std::string disarm_reason_name(std::uint32_t reason) {
  const char* name = nullptr;
  switch (reason) {
    case PILLION_DISARM_ASKED:
      name = "asked";
      break;
    case PILLION_DISARM_LEASE:
      name = "lease expired";
      break;
    case PILLION_DISARM_PEER_GONE:
      name = "peer gone";
      break;
    case PILLION_DISARM_CUPTI_FATAL:
      name = "CUPTI fatal error";
      break;
    case PILLION_DISARM_CLOBBERED:
      name = "clobbered by another CUPTI client";
      break;
    case PILLION_DISARM_EXIT:
      name = "exit";
      break;
    default:
      break;
  }
  return name_or_number(name, reason);
}

std::string residue_name(std::uint32_t residue) {
  const char* name = nullptr;
  switch (residue) {
    case PILLION_RESIDUE_FINALIZED:
      name = "nothing, CUPTI finalized";
      break;
    case PILLION_RESIDUE_GRAPHS:
      name = "CUPTI loaded: several threads replay graphs";
      break;
    case PILLION_RESIDUE_NO_API_CALL:
      name = "CUPTI loaded, launches slower: no API call came to finalize in; tried again later";
      break;
    case PILLION_RESIDUE_NOT_ASKED:
      name = "CUPTI loaded: finalize was not asked for";
      break;
    case PILLION_RESIDUE_FOREIGN:
      name = "CUPTI loaded: it belongs to another client by now";
      break;
    case PILLION_RESIDUE_DISABLED_BEFORE:
      name =
          "CUPTI loaded: an earlier detach could not finalize it, and after that it could kill a program "
          "with graphs";
      break;
    case PILLION_RESIDUE_FINALIZED_OFTEN:
      name =
          "CUPTI loaded, launches slower: it was finalized often, which leaves memory behind; tried again "
          "later";
      break;
    case PILLION_RESIDUE_OLD_CUPTI:
      name = "CUPTI loaded: too old to finalize after graphs";
      break;
    default:
      break;
  }
  return name_or_number(name, residue);
}

std::string python_state_name(std::uint32_t state) {
  const char* name = nullptr;
  switch (state) {
    case PILLION_PYTHON_NOT_ASKED:
      name = "not asked for";
      break;
    case PILLION_PYTHON_IN_FORCE:
      name = "in force";
      break;
    case PILLION_PYTHON_NONE:
      name = "no CPython in this process";
      break;
    case PILLION_PYTHON_VERSION:
      name = "a version that is not known";
      break;
    case PILLION_PYTHON_DEBUG_BUILD:
      name = "a debug build";
      break;
    case PILLION_PYTHON_FREE_THREADED:
      name = "a free-threaded build";
      break;
    case PILLION_PYTHON_OFFSETS_DIFFER:
      name = "other structures than its version has";
      break;
    case PILLION_PYTHON_INCOMPLETE:
      name = "a symbol is missing";
      break;
    case PILLION_PYTHON_UNREADABLE:
      name = "memory cannot be read safely";
      break;
    default:
      break;
  }
  return name_or_number(name, state);
}

// PY_VERSION_HEX: major, minor, micro, then four bits of release level (a, b, c, f) and four of serial.
std::string python_version_name(std::uint32_t version) {
  if (version == 0) return {};
  std::string name = std::to_string(version >> 24) + "." + std::to_string(version >> 16 & 0xff) + "." +
                     std::to_string(version >> 8 & 0xff);
  const std::uint32_t level = version >> 4 & 0xf;
  if (level == 0xf) return name;
  name += level == 0xa ? "a" : level == 0xb ? "b" : level == 0xc ? "rc" : "?";
  return name + std::to_string(version & 0xf);
}

std::string python_summary(const Python& python) {
  const std::string version = python_version_name(python.version);
  return (version.empty() ? "" : version + ": ") + python_state_name(python.state) +
         (python.text.empty() ? "" : " (" + python.text + ")");
}

std::string version_name(std::uint16_t major, std::uint16_t minor) {
  return std::to_string(major) + "." + std::to_string(minor);
}

}  // namespace pillion::session
