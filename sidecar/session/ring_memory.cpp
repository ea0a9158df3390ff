// SPDX-License-Identifier: Apache-2.0
#include "session/ring_memory.h"

#include <fcntl.h>
#include <sys/mman.h>

#include <atomic>
#include <bit>
#include <cerrno>
#include <cstring>

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif
#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 0x0008U
#endif

namespace pillion::session {
namespace {

constexpr std::uint64_t kPage = 4'096;
constexpr std::uint32_t kRingBytesMin = 4'096;
constexpr std::uint32_t kRingBytesMax = 1u << 30;
constexpr std::uint32_t kModuleSlotsMax = 4'096;
constexpr std::uint64_t kArenaBytesMax = 1ull << 30;
constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

constexpr std::uint64_t round_up(std::uint64_t bytes) { return (bytes + kPage - 1) / kPage * kPage; }

constexpr std::uint64_t rings_bytes(std::uint32_t count) {
  return std::uint64_t{count} * sizeof(pillion_ring);
}

constexpr std::uint64_t events_data_offset(const RingGeometry& geometry) {
  return round_up(sizeof(pillion_region_header) + rings_bytes(geometry.events_rings) +
                  sizeof(pillion_counters));
}

constexpr std::uint64_t stacks_data_offset(const RingGeometry& geometry) {
  return round_up(sizeof(pillion_region_header) + rings_bytes(geometry.stacks_rings));
}

constexpr std::uint64_t arena_data_offset(const RingGeometry& geometry) {
  return round_up(sizeof(pillion_region_header) +
                  std::uint64_t{geometry.module_slots} * sizeof(pillion_module_slot));
}

constexpr std::uint64_t events_bytes(const RingGeometry& geometry) {
  return events_data_offset(geometry) + std::uint64_t{geometry.events_rings} * geometry.events_ring_bytes;
}

constexpr std::uint64_t stacks_bytes(const RingGeometry& geometry) {
  return stacks_data_offset(geometry) + std::uint64_t{geometry.stacks_rings} * geometry.stacks_ring_bytes;
}

constexpr std::uint64_t arena_bytes(const RingGeometry& geometry) {
  return arena_data_offset(geometry) + geometry.arena_data_bytes;
}

bool good_ring_size(std::uint32_t bytes) {
  return std::has_single_bit(bytes) && bytes >= kRingBytesMin && bytes <= kRingBytesMax;
}

bool good_ring_count(std::uint32_t count) { return count >= 1 && count <= PILLION_RINGS_MAX; }

// Kernels before 5.14 have no MADV_POPULATE_WRITE: touch each page.
bool populate(std::byte* start, std::uint64_t bytes) {
  if (::madvise(start, bytes, MADV_POPULATE_WRITE) == 0) return true;
  if (errno != EINVAL) return false;
  for (std::uint64_t at = 0; at < bytes; at += kPage)
    *const_cast<volatile std::byte*>(start + at) = std::byte{0};
  return true;
}

}  // namespace

Result<void> RingGeometry::check() const {
  if (!good_ring_count(events_rings) || !good_ring_count(stacks_rings)) {
    return fail("check ring geometry", "ring count", "must be 1 to " + std::to_string(PILLION_RINGS_MAX));
  }
  if (!good_ring_size(events_ring_bytes) || !good_ring_size(stacks_ring_bytes)) {
    return fail("check ring geometry", "ring size", "must be a power of two from 4 KiB to 1 GiB");
  }
  if (module_slots < 1 || module_slots > kModuleSlotsMax) {
    return fail("check ring geometry", "module slots", "must be 1 to 4096");
  }
  if (arena_data_bytes % kPage != 0 || arena_data_bytes < kPage || arena_data_bytes > kArenaBytesMax) {
    return fail("check ring geometry", "module arena", "must be a multiple of 4 KiB, up to 1 GiB");
  }
  return {};
}

std::uint64_t RingGeometry::total_bytes() const {
  return events_bytes(*this) + stacks_bytes(*this) + arena_bytes(*this);
}

RingMemory::Region::~Region() {
  if (start_ != nullptr) ::munmap(start_, bytes);
}

Result<void> RingMemory::Region::make(const char* name, std::uint64_t size) {
  fd.reset(::memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING));
  // vm.memfd_noexec=2 lets only memfds be made that say so.
  if (!fd.valid() && errno == EACCES) {
    fd.reset(::memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_NOEXEC_SEAL));
  }
  if (!fd.valid()) return fail_errno("memfd_create", name);
  if (::ftruncate(fd.get(), static_cast<off_t>(size)) != 0) {
    auto failed = fail_errno("ftruncate", name);
    if (failed.value().number == EFBIG)
      failed.value().detail = "RLIMIT_FSIZE (ulimit -f) counts shared memory, too";
    return failed;
  }
  void* mapped = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd.get(), 0);
  if (mapped == MAP_FAILED) return fail_errno("mmap", name);
  start_ = static_cast<std::byte*>(mapped);
  bytes = size;
  ::madvise(start_, bytes, MADV_DONTFORK);
  if (!populate(start_, bytes)) return fail_errno("populate", name);
  return {};
}

Result<void> RingMemory::Region::finish(const pillion_region_header& header) {
  std::memcpy(start_, &header, sizeof(header));
  if (::fcntl(fd.get(), F_ADD_SEALS, kSeals) != 0) return fail_errno("seal", "memfd");
  // Pairs with the acquire load of `ready` at the shim.
  auto* written = reinterpret_cast<pillion_region_header*>(start_);
  std::atomic_ref<std::uint32_t>(written->ready).store(PILLION_REGION_READY, std::memory_order_release);
  return {};
}

RingMemory::RingMemory(const RingGeometry& geometry, std::uint64_t generation, RingBudget::Share share)
    : share_(std::move(share)), geometry_(geometry), generation_(generation) {}

Result<std::shared_ptr<RingMemory>> RingMemory::create(const RingGeometry& geometry, std::uint64_t generation,
                                                       const std::shared_ptr<RingBudget>& budget) {
  if (auto checked = geometry.check(); !checked) return tl::make_unexpected(checked.error());
  auto share = budget->take(geometry.total_bytes());
  if (!share) return tl::make_unexpected(share.error());
  std::shared_ptr<RingMemory> memory(new RingMemory(geometry, generation, std::move(*share)));
  if (auto made = memory->make_regions(); !made) return tl::make_unexpected(made.error());
  return memory;
}

Result<void> RingMemory::make_regions() {
  pillion_region_header header{};
  header.magic = PILLION_ABI_MAGIC;
  header.major = PILLION_ABI_MAJOR;
  header.minor = PILLION_ABI_MINOR;
  header.header_size = sizeof(header);
  header.generation = generation_;
  header.rings_offset = sizeof(header);

  pillion_region_header events = header;
  events.kind = PILLION_REGION_EVENTS;
  events.region_bytes = events_bytes(geometry_);
  events.ring_count = geometry_.events_rings;
  events.ring_bytes = geometry_.events_ring_bytes;
  events.counters_offset = sizeof(header) + rings_bytes(geometry_.events_rings);
  events.data_offset = events_data_offset(geometry_);

  pillion_region_header stacks = header;
  stacks.kind = PILLION_REGION_STACKS;
  stacks.region_bytes = stacks_bytes(geometry_);
  stacks.ring_count = geometry_.stacks_rings;
  stacks.ring_bytes = geometry_.stacks_ring_bytes;
  stacks.data_offset = stacks_data_offset(geometry_);

  pillion_region_header arena = header;
  arena.kind = PILLION_REGION_ARENA;
  arena.region_bytes = arena_bytes(geometry_);
  arena.ring_count = geometry_.module_slots;
  arena.data_offset = arena_data_offset(geometry_);

  return events_.make("pillion-events", events.region_bytes)
      .and_then([&] { return events_.finish(events); })
      .and_then([&] { return stacks_.make("pillion-stacks", stacks.region_bytes); })
      .and_then([&] { return stacks_.finish(stacks); })
      .and_then([&] { return arena_.make("pillion-arena", arena.region_bytes); })
      .and_then([&] { return arena_.finish(arena); });
}

std::array<int, 3> RingMemory::fds() const { return {events_.fd.get(), stacks_.fd.get(), arena_.fd.get()}; }

std::array<std::uint64_t, 3> RingMemory::sizes() const {
  return {events_.bytes, stacks_.bytes, arena_.bytes};
}

SharedRings RingMemory::rings() {
  constexpr std::uint64_t kTable = sizeof(pillion_region_header);
  SharedRings rings;
  rings.events = {reinterpret_cast<pillion_ring*>(events_.at(kTable)),
                  events_.at(events_data_offset(geometry_)), geometry_.events_rings,
                  geometry_.events_ring_bytes};
  rings.stacks = {reinterpret_cast<pillion_ring*>(stacks_.at(kTable)),
                  stacks_.at(stacks_data_offset(geometry_)), geometry_.stacks_rings,
                  geometry_.stacks_ring_bytes};
  rings.arena = {reinterpret_cast<pillion_module_slot*>(arena_.at(kTable)),
                 arena_.at(arena_data_offset(geometry_)), geometry_.module_slots, geometry_.arena_data_bytes};
  rings.counters =
      reinterpret_cast<const pillion_counters*>(events_.at(kTable + rings_bytes(geometry_.events_rings)));
  rings.memory = shared_from_this();
  return rings;
}

}  // namespace pillion::session
