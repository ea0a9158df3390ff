// SPDX-License-Identifier: Apache-2.0
#include "unwind/vdso.h"

#include <sys/auxv.h>

#include <fstream>
#include <sstream>

#include "unwind/maps_table.h"

namespace pillion::unwind {

ElfBytes own_vdso() {
  const std::uint64_t start = ::getauxval(AT_SYSINFO_EHDR);
  std::ifstream maps("/proc/self/maps");
  std::ostringstream text;
  text << maps.rdbuf();
  const MapsTable table = MapsTable::parse(text.str());
  const Mapping* mapping = start == 0 ? nullptr : table.find(start);
  if (mapping == nullptr || mapping->kind != MappingKind::vdso) return {};
  const auto* begin = reinterpret_cast<const std::byte*>(mapping->start);
  const auto* end = reinterpret_cast<const std::byte*>(mapping->end);
  return {nullptr, std::make_shared<const std::vector<std::byte>>(begin, end)};
}

}  // namespace pillion::unwind
