// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include "abi/pillion_abi.h"

namespace pillion::shim {

// The shim's end of the module arena of pillion_abi.h: takes an empty slot and a free piece of the data area,
// which goes round, fills both and publishes. Of the shared memory only the slots' state words are read;
// places and sizes are remembered here. Used by one thread at a time: the caller has a lock.
class ModuleArena {
 public:
  static constexpr std::uint32_t kSlotsMax = 1024;

  // `region`: a checked header of kind ARENA in a mapping of `bytes`. False when the tables do not fit into
  // it.
  [[nodiscard]] bool open(pillion_region_header* region, std::uint64_t bytes);
  void close() { slots_ = nullptr; }

  // Nothing larger can ever be stored.
  [[nodiscard]] std::uint64_t capacity() const { return data_bytes_; }

  struct Module {
    std::uint32_t origin;  // enum pillion_module_origin
    std::uint32_t module;
    std::uint32_t context;
    std::uint64_t time_ns;
    const void* bytes;  // null: none
    std::uint64_t size;
  };

  // False when no slot or no room is free now, or the arena is closed.
  [[nodiscard]] bool store(const Module& module);

 private:
  struct Extent {
    std::uint64_t begin;
    std::uint64_t end;  // 0: the slot was never filled
  };

  [[nodiscard]] bool find_room(std::uint64_t size, std::uint64_t* offset) const;
  [[nodiscard]] bool empty(std::uint32_t slot) const;

  pillion_module_slot* slots_ = nullptr;
  std::uint8_t* data_ = nullptr;
  std::uint64_t data_bytes_ = 0;
  std::uint32_t slot_count_ = 0;
  std::uint32_t next_slot_ = 0;
  std::uint64_t next_offset_ = 0;
  Extent extents_[kSlotsMax]{};
};

}  // namespace pillion::shim
