// SPDX-License-Identifier: Apache-2.0
#include "module_arena.h"

#include <atomic>
#include <cstring>

namespace pillion::shim {
namespace {

constexpr std::uint64_t kAlignment = 64;

}  // namespace

bool ModuleArena::open(pillion_region_header* region, std::uint64_t bytes) {
  pillion_region_header header;
  std::memcpy(&header, region, sizeof(header));  // the peer may change it at any time: one look
  std::uint32_t slots = header.ring_count;
  if (slots == 0) return false;
  if (slots > kSlotsMax) slots = kSlotsMax;  // the rest is never used
  const std::uint64_t table = std::uint64_t{slots} * sizeof(pillion_module_slot);
  if (header.rings_offset > bytes || table > bytes - header.rings_offset || header.rings_offset % 8 != 0)
    return false;
  if (header.data_offset > bytes) return false;
  auto* base = reinterpret_cast<std::uint8_t*>(region);
  slots_ = reinterpret_cast<pillion_module_slot*>(base + header.rings_offset);
  data_ = base + header.data_offset;
  data_bytes_ = bytes - header.data_offset;
  slot_count_ = slots;
  next_slot_ = 0;
  next_offset_ = 0;
  std::memset(extents_, 0, sizeof(extents_));
  return true;
}

// Pairs with the sidecar's release store of EMPTY: its copy is done.
bool ModuleArena::empty(std::uint32_t slot) const {
  return std::atomic_ref<std::uint32_t>(slots_[slot].state).load(std::memory_order_acquire) ==
         PILLION_SLOT_EMPTY;
}

// First fit from next_offset_ on, once around; extents of filled slots are obstacles.
bool ModuleArena::find_room(std::uint64_t size, std::uint64_t* offset) const {
  if (size > data_bytes_) return false;
  std::uint64_t at = next_offset_;
  bool wrapped = false;
  for (;;) {
    if (at + size > data_bytes_) {
      if (wrapped) return false;
      wrapped = true;
      at = 0;
    }
    std::uint64_t beyond = 0;
    for (std::uint32_t slot = 0; slot < slot_count_; ++slot) {
      const Extent& extent = extents_[slot];
      const bool overlaps = extent.begin < at + size && extent.end > at;
      if (overlaps && extent.end > beyond && !empty(slot)) beyond = extent.end;
    }
    if (beyond == 0) break;
    at = (beyond + kAlignment - 1) & ~(kAlignment - 1);
  }
  *offset = at;
  return true;
}

bool ModuleArena::store(const Module& module) {
  if (slots_ == nullptr) return false;
  std::uint32_t slot = next_slot_;
  std::uint32_t tried = 0;
  while (!empty(slot)) {
    if (++tried == slot_count_) return false;
    slot = (slot + 1) % slot_count_;
  }
  std::uint64_t offset = 0;
  if (module.size != 0) {
    if (!find_room(module.size, &offset)) return false;
    std::memcpy(data_ + offset, module.bytes, module.size);
    next_offset_ = (offset + module.size + kAlignment - 1) & ~(kAlignment - 1);
  }
  extents_[slot] = {offset, module.size != 0 ? offset + module.size : 0};
  pillion_module_slot& shared = slots_[slot];
  shared.origin = module.origin;
  shared.module = module.module;
  shared.context = module.context;
  shared.offset = offset;
  shared.bytes = module.size;
  shared.crc = 0;
  shared.time_ns = module.time_ns;
  // Pairs with the sidecar's acquire load: slot and bytes are there.
  std::atomic_ref<std::uint32_t>(shared.state).store(PILLION_SLOT_FULL, std::memory_order_release);
  next_slot_ = (slot + 1) % slot_count_;
  return true;
}

}  // namespace pillion::shim
