// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "abi/pillion_abi.h"

namespace pillion {

// Where the rings of one session lie in the sidecar's own mapping of them. The numbers here are the
// sidecar's: it never reads a size or an offset back from shared memory, where the workload could have
// changed it.
struct RingsView {
  pillion_ring* rings = nullptr;
  std::byte* data = nullptr;     // ring i begins at data + i * ring_bytes
  std::uint32_t ring_count = 0;  // up to PILLION_RINGS_MAX
  std::uint32_t ring_bytes = 0;  // a power of two
};

struct ArenaView {
  pillion_module_slot* slots = nullptr;
  const std::byte* data = nullptr;
  std::uint32_t slot_count = 0;
  std::uint64_t data_bytes = 0;
};

struct SharedRings {
  RingsView events;
  RingsView stacks;
  ArenaView arena;
  const pillion_counters* counters = nullptr;
  std::shared_ptr<const void>
      memory;  // keeps all of it mapped, also when the workload and its session are gone
};

}  // namespace pillion
