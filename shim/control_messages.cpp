// SPDX-License-Identifier: Apache-2.0
#include "control_messages.h"

#include <cstring>

#include "bounded_text.h"

namespace pillion::shim {
namespace {

constexpr std::uint32_t kLeaseMsMin = 50;
constexpr std::uint32_t kLeaseMsMax = 600'000;
constexpr std::uint32_t kDeadlineMsMax = 600'000;

struct Known {
  std::uint32_t type;
  std::uint32_t bytes;  // in version 1.0: the least that a peer of this major sends
  const char* name;
};

constexpr Known kKnown[] = {
    {PILLION_ARM, PILLION_ARM_BYTES_1_0, "ARM"},
    {PILLION_RENEW, sizeof(pillion_renew), "RENEW"},
    {PILLION_DISARM, sizeof(pillion_disarm), "DISARM"},
    {PILLION_FLUSH, sizeof(pillion_flush), "FLUSH"},
    {PILLION_GET_MAPS, sizeof(pillion_get_maps), "GET_MAPS"},
    {PILLION_GET_FILE, sizeof(pillion_get_file), "GET_FILE"},
    {PILLION_QUERY, sizeof(pillion_query), "QUERY"},
    {PILLION_START, sizeof(pillion_start), "START"},
};

}  // namespace

Verdict check_message(const void* packet, std::size_t bytes, char (&problem)[192]) {
  BoundedText text(problem);
  pillion_message_header header{};
  if (bytes < sizeof header) {
    text.add("packet of ").add(bytes).add(" bytes is shorter than a header");
    return Verdict::garbage;
  }
  std::memcpy(&header, packet, sizeof header);
  if (header.magic != PILLION_ABI_MAGIC) {
    text.add("magic is ").add(header.magic).add(", not ").add(PILLION_ABI_MAGIC);
    return Verdict::garbage;
  }
  if (header.major != PILLION_ABI_MAJOR) {
    text.add("the sidecar speaks version ").add(header.major).add(".").add(header.minor);
    text.add(" of the wire, the shim ")
        .add(std::uint64_t{PILLION_ABI_MAJOR})
        .add(".")
        .add(std::uint64_t{PILLION_ABI_MINOR});
    return Verdict::version;
  }
  if (header.size != bytes) {
    text.add("size says ").add(header.size).add(", the packet has ").add(bytes).add(" bytes");
    return Verdict::garbage;
  }
  for (const Known& known : kKnown) {
    if (known.type != header.type) continue;
    if (bytes >= known.bytes) return Verdict::sound;
    text.add(known.name).add(": size is ").add(bytes).add(", needs ").add(known.bytes);
    return Verdict::bad;
  }
  return Verdict::unknown;
}

const char* check_arm(const pillion_arm& arm) {
  if (arm.generation == 0) return "ARM: generation is 0";
  if (arm.lease_ms < kLeaseMsMin || arm.lease_ms > kLeaseMsMax) return "ARM: lease_ms is not in 50..600000";
  if (arm.deadline_ms > kDeadlineMsMax) return "ARM: deadline_ms is above 600000";
  if (arm.sample_permyriad > 10'000) return "ARM: sample_permyriad is above 10000";
  return nullptr;
}

}  // namespace pillion::shim
