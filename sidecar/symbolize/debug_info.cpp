// SPDX-License-Identifier: Apache-2.0
#include "symbolize/debug_info.h"

#include <dwarf.h>
#include <gelf.h>

#include <algorithm>
#include <string_view>

namespace pillion::symbolize {
namespace {

constexpr int kOverlappingUnitsMax = 16;

Elf_Scn* find_section(Elf* elf, std::string_view wanted) {
  std::size_t names = 0;
  if (elf_getshdrstrndx(elf, &names) != 0) return nullptr;
  Elf_Scn* section = nullptr;
  while ((section = elf_nextscn(elf, section)) != nullptr) {
    GElf_Shdr header;
    if (gelf_getshdr(section, &header) == nullptr || header.sh_type == SHT_NOBITS) continue;
    const char* name = elf_strptr(elf, names, header.sh_name);
    if (name != nullptr && wanted == name) return section;
  }
  return nullptr;
}

bool has_section(Elf* elf, std::string_view wanted) { return find_section(elf, wanted) != nullptr; }

// libdw 0.188 reads on past the end of a string section whose last string is not terminated.
bool ends_terminated(Elf* elf, std::string_view name) {
  Elf_Scn* section = find_section(elf, name);
  if (section == nullptr) return true;
  const Elf_Data* data = elf_getdata(section, nullptr);
  if (data == nullptr || data->d_size == 0) return data != nullptr;
  return data->d_buf != nullptr && static_cast<const char*>(data->d_buf)[data->d_size - 1] == '\0';
}

std::string_view view(const char* text) {
  return text == nullptr ? std::string_view() : std::string_view(text);
}

}  // namespace

DebugInfo::Opened DebugInfo::open(ElfFile file, bool trusted) {
  if (!has_section(file.elf(), ".debug_info")) return {nullptr, Absence::no_sections};
  if (!trusted && has_section(file.elf(), ".gnu_debugaltlink")) return {nullptr, Absence::foreign_links};
  const std::uint64_t bytes = file.debug_bytes();
  if (bytes > kBytesMax) return {nullptr, Absence::too_large};
  std::unique_ptr<DebugInfo> info(new DebugInfo(std::move(file)));
  info->bytes_ = bytes;
  info->dwarf_.reset(dwarf_begin_elf(info->file_.elf(), DWARF_C_READ, nullptr));
  if (info->dwarf_ == nullptr) return {nullptr, Absence::malformed};
  // After dwarf_begin_elf(): it has unpacked compressed sections in place.
  for (const char* name : {".debug_str", ".debug_line_str"})
    if (!ends_terminated(info->file_.elf(), name)) return {nullptr, Absence::malformed};
  info->find_units();
  return {std::move(info), Absence::none};
}

void DebugInfo::find_units() {
  Dwarf_CU* unit = nullptr;
  Dwarf_Die die;
  std::uint8_t type = 0;
  // No sub-entry is asked for: libdw would open the split file that a skeleton unit names.
  while (units_.size() < kUnitsMax &&
         dwarf_get_units(dwarf_.get(), unit, &unit, nullptr, &type, &die, nullptr) == 0) {
    if (type != DW_UT_compile && type != DW_UT_skeleton) continue;
    units_.push_back({die, type == DW_UT_skeleton, nullptr});
    add_ranges(&die, static_cast<std::uint32_t>(units_.size() - 1));
  }
  std::sort(ranges_.begin(), ranges_.end(),
            [](const UnitRange& left, const UnitRange& right) { return left.low < right.low; });
}

void DebugInfo::add_ranges(Dwarf_Die* die, std::uint32_t unit) {
  Dwarf_Addr base = 0;
  Dwarf_Addr low = 0;
  Dwarf_Addr high = 0;
  std::ptrdiff_t at = 0;
  while (ranges_.size() < kUnitRangesMax && (at = dwarf_ranges(die, at, &base, &low, &high)) > 0)
    if (low < high && low != 0) ranges_.push_back({low, high, unit});
}

DebugInfo::Unit* DebugInfo::unit_at(std::uint64_t address) {
  auto range = std::upper_bound(ranges_.begin(), ranges_.end(), address,
                                [](std::uint64_t at, const UnitRange& other) { return at < other.low; });
  for (int steps = 0; range != ranges_.begin() && steps < kOverlappingUnitsMax; ++steps) {
    --range;
    if (range->high > address) return &units_[range->unit];
  }
  return nullptr;
}

std::vector<SourceFrame> DebugInfo::frames_at(std::uint64_t address) {
  Unit* unit = unit_at(address);
  if (unit == nullptr) return {};
  std::string_view source;
  std::uint32_t line = 0;
  if (Dwarf_Line* found = dwarf_getsrc_die(&unit->die, address)) {
    int number = 0;
    if (dwarf_lineno(found, &number) == 0 && number > 0) line = static_cast<std::uint32_t>(number);
    source = view(dwarf_linesrc(found, nullptr, nullptr));
  }
  std::vector<SourceFrame> frames;
  if (!unit->skeleton) {
    if (unit->scopes == nullptr) unit->scopes = std::make_unique<ScopeTable>(unit->die);
    for (const Scope* scope : unit->scopes->find(address)) {
      frames.push_back(
          {view(scope->linkage_name), view(scope->name), source, line, scope->start_line, scope->inlined});
      source = view(scope->call_source);
      line = scope->call_line;
    }
  }
  if (frames.empty() && line != 0) frames.push_back({{}, {}, source, line, 0, false});
  return frames;
}

}  // namespace pillion::symbolize
