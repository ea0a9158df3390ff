// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "unwind/code_files.h"
#include "unwind/maps_table.h"

namespace pillion::unwind {

// One executable mapping with its file, ready to unwind.
struct Region {
  std::uint64_t start = 0;
  std::uint64_t end = 0;
  std::uint64_t bias = 0;   // pc - bias is the address in the file
  std::uint32_t file = 0;   // UnwoundFrame::file
  CfiTable* cfi = nullptr;  // null: no unwind information
  bool opened = false;      // file, bias and cfi are filled in
  bool vsyscall = false;
};

// The regions of one target as of one MapsTable. Files are opened when a stack first leads into them. One
// owner thread.
class AddressSpace {
 public:
  explicit AddressSpace(TargetId target) : target_(target) {}

  // Takes over a newer table; does nothing when it is the one that it already has.
  void update(const MapsTable& maps);

  // The opened region that holds `pc`, or null when no executable mapping does.
  [[nodiscard]] const Region* find(std::uint64_t pc, const MapsTable& maps, CodeFiles& files) {
    PageSlot& slot = pages_[(pc >> kPageBits) % pages_.size()];
    if (slot.page == pc >> kPageBits && slot.region < regions_.size()) return &regions_[slot.region];
    return find_slow(pc, maps, files, slot);
  }

 private:
  static constexpr unsigned kPageBits = 12;

  struct PageSlot {
    std::uint64_t page = ~0ULL;
    std::uint32_t region = 0;
  };

  const Region* find_slow(std::uint64_t pc, const MapsTable& maps, CodeFiles& files, PageSlot& slot);
  void open(Region& region, const Mapping& mapping, CodeFiles& files) const;

  TargetId target_;
  std::uint64_t serial_ = 0;
  std::vector<Region> regions_;  // one per mapping of the table, same order
  std::array<PageSlot, 1024> pages_{};
};

}  // namespace pillion::unwind
