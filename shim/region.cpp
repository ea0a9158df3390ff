// SPDX-License-Identifier: Apache-2.0
#include "region.h"

#include <fcntl.h>
#include <sys/mman.h>

#include <atomic>
#include <cstring>

#include "system_calls.h"

namespace pillion::shim {
namespace {

constexpr std::uint64_t kBytesMax = std::uint64_t{1} << 30;
constexpr std::uint32_t kRingBytesMin = 4096;
constexpr std::uint64_t kLine = 64;

struct Extent {
  std::uint64_t offset;
  std::uint64_t bytes;
};

bool inside(const Extent& part, std::uint64_t whole) {
  return part.offset >= sizeof(pillion_region_header) && part.offset <= whole &&
         part.bytes <= whole - part.offset && part.offset % kLine == 0;
}

bool apart(const Extent& a, const Extent& b) {
  return a.bytes == 0 || b.bytes == 0 || a.offset + a.bytes <= b.offset || b.offset + b.bytes <= a.offset;
}

const char* check_rings(const pillion_region_header& header, const RegionWish& wish) {
  if (header.ring_count == 0 || header.ring_count > PILLION_RINGS_MAX) return "ring_count";
  if (header.ring_bytes < kRingBytesMin || (header.ring_bytes & (header.ring_bytes - 1)) != 0)
    return "ring_bytes";
  const Extent rings{header.rings_offset, std::uint64_t{header.ring_count} * sizeof(pillion_ring)};
  const Extent data{header.data_offset, std::uint64_t{header.ring_count} * header.ring_bytes};
  const bool counted = wish.kind == PILLION_REGION_EVENTS;
  const Extent counters{header.counters_offset, counted ? sizeof(pillion_counters) : 0};
  if (!inside(rings, wish.bytes)) return "rings_offset";
  if (!inside(data, wish.bytes)) return "data_offset";
  if (counted && !inside(counters, wish.bytes)) return "counters_offset";
  if (!apart(rings, data) || !apart(rings, counters) || !apart(data, counters)) return "overlapping parts";
  return nullptr;
}

const char* check_arena(const pillion_region_header& header, const RegionWish& wish) {
  if (header.ring_count == 0) return "slot count";
  const Extent slots{header.rings_offset, std::uint64_t{header.ring_count} * sizeof(pillion_module_slot)};
  if (!inside(slots, wish.bytes)) return "slot table";
  if (!inside({header.data_offset, 0}, wish.bytes)) return "data_offset";
  if (!apart(slots, {header.data_offset, wish.bytes - header.data_offset})) return "overlapping parts";
  return nullptr;
}

const char* check_file(int fd, const RegionWish& wish) {
  if (fd < 0) return "no file descriptor";
  if (wish.bytes < sizeof(pillion_region_header) || wish.bytes > kBytesMax) return "stated size";
  const int seals = ::fcntl(fd, F_GET_SEALS);
  if (seals < 0) return "not a memfd with seals";
  constexpr int kNeeded = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
  if ((seals & kNeeded) != kNeeded) return "seals are not SHRINK|GROW|SEAL";
  struct stat status {};
  if (!file_status(fd, &status) || !S_ISREG(status.st_mode)) return "not a regular file";
  if (static_cast<std::uint64_t>(status.st_size) != wish.bytes) return "size differs from the stated one";
  // Pages that are missing would be made, and charged, by our first touch: under a memory limit that kills.
  if (static_cast<std::uint64_t>(status.st_blocks) * 512 < wish.bytes) return "not populated";
  return nullptr;
}

}  // namespace

const char* check_region_header(const pillion_region_header& header, const RegionWish& wish) {
  if (header.ready != PILLION_REGION_READY) return "header is not READY";
  if (header.magic != PILLION_ABI_MAGIC) return "header magic";
  if (header.major != PILLION_ABI_MAJOR) return "header major";
  if (header.header_size < sizeof(pillion_region_header)) return "header size";
  if (header.kind != wish.kind) return "header kind";
  if (header.generation != wish.generation) return "header generation";
  if (header.region_bytes != wish.bytes) return "header region_bytes";
  return wish.kind == PILLION_REGION_ARENA ? check_arena(header, wish) : check_rings(header, wish);
}

const char* map_region(int fd, const RegionWish& wish, Region* out) {
  const char* problem = check_file(fd, wish);
  if (problem != nullptr) return problem;
  void* base = ::mmap(nullptr, wish.bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, 0);
  if (base == MAP_FAILED) return "mmap failed";
  ::madvise(base, wish.bytes, MADV_DONTFORK);
  ::madvise(base, wish.bytes, MADV_DONTDUMP);
  auto* shared = static_cast<pillion_region_header*>(base);
  // Pairs with the sidecar's release store of READY: the rest of the header is there.
  const std::uint32_t ready = std::atomic_ref<std::uint32_t>(shared->ready).load(std::memory_order_acquire);
  std::memcpy(&out->header, shared, sizeof out->header);
  out->header.ready = ready;
  problem = check_region_header(out->header, wish);
  if (problem != nullptr) {
    ::munmap(base, wish.bytes);
    return problem;
  }
  out->base = base;
  out->bytes = wish.bytes;
  return nullptr;
}

void unmap_region(Region* region) {
  if (region->base != nullptr) ::munmap(region->base, region->bytes);
  region->base = nullptr;
  region->bytes = 0;
}

}  // namespace pillion::shim
