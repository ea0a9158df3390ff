// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include "abi/pillion_abi.h"

namespace pillion::shim {

// One memfd of the sidecar's, mapped. Control thread only.
struct Region {
  void* base = nullptr;
  std::uint64_t bytes = 0;
  pillion_region_header header{};  // the copy that was checked; the shared one may change at any time
};

struct RegionWish {
  std::uint32_t kind;  // enum pillion_region_kind
  std::uint64_t bytes;
  std::uint64_t generation;
};

// Checks seals, size, that every page is there already (so that no page is charged to this program), maps it
// shared, populated and invisible to forked children and core dumps, and checks the header. Returns null, or
// what is wrong with it; then nothing stays mapped. `fd` stays open and is the caller's.
[[nodiscard]] const char* map_region(int fd, const RegionWish& wish, Region* out);

void unmap_region(Region* region);

// The checks of the header alone, for a copy of it. Null when it is sound.
[[nodiscard]] const char* check_region_header(const pillion_region_header& header, const RegionWish& wish);

}  // namespace pillion::shim
