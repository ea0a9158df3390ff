// SPDX-License-Identifier: Apache-2.0
#include "unwind/address_space.h"

namespace pillion::unwind {

void AddressSpace::update(const MapsTable& maps) {
  if (serial_ == maps.serial() && regions_.size() == maps.mappings().size()) return;
  serial_ = maps.serial();
  pages_.fill({});
  regions_.clear();
  regions_.reserve(maps.mappings().size());
  for (const Mapping& mapping : maps.mappings()) {
    Region region;
    region.start = mapping.start;
    region.end = mapping.end;
    region.vsyscall = mapping.kind == MappingKind::vsyscall;
    regions_.push_back(region);
  }
}

const Region* AddressSpace::find_slow(std::uint64_t pc, const MapsTable& maps, CodeFiles& files,
                                      PageSlot& slot) {
  const Mapping* mapping = maps.find(pc);
  if (mapping == nullptr) return nullptr;
  const auto index = static_cast<std::size_t>(mapping - maps.mappings().data());
  Region& region = regions_[index];
  if (!region.opened) open(region, *mapping, files);
  // A forged table may have mappings that do not begin at pages; those are not remembered.
  if (((region.start | region.end) & ((1U << kPageBits) - 1)) == 0)
    slot = {pc >> kPageBits, static_cast<std::uint32_t>(index)};
  return &region;
}

void AddressSpace::open(Region& region, const Mapping& mapping, CodeFiles& files) const {
  region.opened = true;
  // A region is opened once per maps table, so a file that failed is asked for once more with each newer
  // table.
  const CodeFile file = files.get(target_, mapping);
  if (file.info == nullptr) return;
  region.file = file.info->id;
  region.cfi = file.cfi;
  if (!file.info->content.valid()) {
    region.bias = mapping.start - mapping.offset;
    return;
  }
  const auto address = code_address(file.info->segments, mapping.offset);
  if (address) {
    region.bias = mapping.start - *address;
  } else {
    // Mapped executable by hand, outside the file's own code segments: no frame information applies.
    region.file = 0;
    region.cfi = nullptr;
  }
}

}  // namespace pillion::unwind
