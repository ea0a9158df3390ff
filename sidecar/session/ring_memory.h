// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "base/result.h"
#include "base/shared_rings.h"
#include "base/unique_fd.h"
#include "session/ring_budget.h"

namespace pillion::session {

// Counts and sizes of what one session shares with its shim. The defaults: 32 MiB of rings.
struct RingGeometry {
  std::uint32_t events_rings = 16;
  std::uint32_t events_ring_bytes = 1u << 20;  // powers of two, from 4 KiB
  std::uint32_t stacks_rings = 8;
  std::uint32_t stacks_ring_bytes = 2u << 20;
  std::uint32_t module_slots = 64;
  std::uint64_t arena_data_bytes = 16u
                                   << 20;  // the largest module that can be handed over; a multiple of 4 KiB

  [[nodiscard]] Result<void> check() const;
  [[nodiscard]] std::uint64_t total_bytes() const;
};

// The three memfds of one session and this process's mapping of them. Created whole: populated by this
// process (so that the pages are charged here and never to the workload), sealed against shrinking, READY
// stored last. Unmapped with the last owner. Mapping is safe against the peer because the size is sealed
// before it gets an fd.
class RingMemory : public std::enable_shared_from_this<RingMemory> {
 public:
  [[nodiscard]] static Result<std::shared_ptr<RingMemory>> create(const RingGeometry& geometry,
                                                                  std::uint64_t generation,
                                                                  const std::shared_ptr<RingBudget>& budget);

  [[nodiscard]] std::uint64_t generation() const { return generation_; }
  // Events, stacks, arena: the order in which ARM carries them.
  [[nodiscard]] std::array<int, 3> fds() const;
  [[nodiscard]] std::array<std::uint64_t, 3> sizes() const;
  // Valid as long as the `memory` in it lives.
  [[nodiscard]] SharedRings rings();

 private:
  class Region {
   public:
    Region() = default;
    Region(const Region&) = delete;
    Region& operator=(const Region&) = delete;
    ~Region();
    [[nodiscard]] Result<void> make(const char* name, std::uint64_t size);
    [[nodiscard]] Result<void> finish(const pillion_region_header& header);
    [[nodiscard]] std::byte* at(std::uint64_t offset) const { return start_ + offset; }

    UniqueFd fd;
    std::uint64_t bytes = 0;

   private:
    std::byte* start_ = nullptr;
  };

  RingMemory(const RingGeometry& geometry, std::uint64_t generation, RingBudget::Share share);
  [[nodiscard]] Result<void> make_regions();

  RingBudget::Share share_;  // given back after the memory has gone: members end in reverse order
  const RingGeometry geometry_;
  const std::uint64_t generation_;
  Region events_;
  Region stacks_;
  Region arena_;
};

}  // namespace pillion::session
