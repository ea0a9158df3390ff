// SPDX-License-Identifier: Apache-2.0
#include "symbolize/symbol_table.h"

#include <gelf.h>
#include <libelf.h>

#include <algorithm>
#include <cstring>
#include <tuple>

namespace pillion::symbolize {
namespace {

constexpr int kStepsBackMax = 64;

// Several names often share an address: exported before weak before local, then the plainer one.
std::uint8_t rank_of(const GElf_Sym& symbol, std::string_view name) {
  const auto binding = GELF_ST_BIND(symbol.st_info);
  const unsigned by_binding = binding == STB_GLOBAL || binding == STB_GNU_UNIQUE ? 0
                              : binding == STB_WEAK                              ? 1
                                                                                 : 2;
  const unsigned by_type = GELF_ST_TYPE(symbol.st_info) == STT_NOTYPE ? 1 : 0;
  const auto underscores = std::min<std::size_t>(name.find_first_not_of('_'), 15);
  return static_cast<std::uint8_t>(by_type * 128 + by_binding * 16 + underscores);
}

bool is_code(const GElf_Sym& symbol) {
  const auto type = GELF_ST_TYPE(symbol.st_info);
  return (type == STT_FUNC || type == STT_GNU_IFUNC || type == STT_NOTYPE) && symbol.st_shndx != SHN_UNDEF &&
         symbol.st_size != 0 && symbol.st_value + symbol.st_size > symbol.st_value;
}

}  // namespace

void SymbolTable::add(Elf* elf) {
  Elf_Scn* section = nullptr;
  while ((section = elf_nextscn(elf, section)) != nullptr) add_section(elf, section);
}

void SymbolTable::add_section(Elf* elf, void* raw_section) {
  auto* section = static_cast<Elf_Scn*>(raw_section);
  GElf_Shdr header;
  if (gelf_getshdr(section, &header) == nullptr) return;
  if (header.sh_type != SHT_SYMTAB && header.sh_type != SHT_DYNSYM) return;
  Elf_Data* data = elf_getdata(section, nullptr);
  Elf_Scn* strings_section = elf_getscn(elf, header.sh_link);
  Elf_Data* strings = strings_section == nullptr ? nullptr : elf_getdata(strings_section, nullptr);
  if (data == nullptr || strings == nullptr || strings->d_buf == nullptr) return;
  const auto* text = static_cast<const char*>(strings->d_buf);
  const std::size_t count = data->d_size / sizeof(Elf64_Sym);
  for (std::size_t i = 0; i < count; ++i) {
    GElf_Sym symbol;
    if (gelf_getsym(data, static_cast<int>(i), &symbol) == nullptr) return;
    if (!is_code(symbol) || symbol.st_name >= strings->d_size) continue;
    const std::size_t length = ::strnlen(text + symbol.st_name, strings->d_size - symbol.st_name);
    if (length == 0) continue;
    if (length > kNameMax || entries_.size() >= kSymbolsMax || names_.size() + length > kNameBytesMax) {
      cut_ = true;
      continue;
    }
    const std::string_view name(text + symbol.st_name, length);
    entries_.push_back({symbol.st_value, symbol.st_value + symbol.st_size, 0,
                        static_cast<std::uint32_t>(names_.size()), static_cast<std::uint16_t>(length),
                        rank_of(symbol, name)});
    names_ += name;
  }
}

void SymbolTable::build() {
  // Outer before inner, so that looking back from an address meets the innermost first; of equals the best
  // last.
  std::sort(entries_.begin(), entries_.end(), [this](const Entry& left, const Entry& right) {
    return std::tuple(left.address, right.end, right.rank, name_of(right)) <
           std::tuple(right.address, left.end, left.rank, name_of(left));
  });
  std::size_t kept = 0;
  std::uint64_t highest = 0;
  for (std::size_t i = 0; i < entries_.size(); ++i) {
    const bool last_of_equals = i + 1 == entries_.size() || entries_[i + 1].address != entries_[i].address ||
                                entries_[i + 1].end != entries_[i].end;
    if (!last_of_equals) continue;
    highest = std::max(highest, entries_[i].end);
    entries_[kept] = entries_[i];
    entries_[kept++].highest_end = highest;
  }
  entries_.resize(kept);
  entries_.shrink_to_fit();
}

Symbol SymbolTable::find(std::uint64_t address) const {
  auto entry = std::upper_bound(entries_.begin(), entries_.end(), address,
                                [](std::uint64_t at, const Entry& other) { return at < other.address; });
  for (int steps = 0; entry != entries_.begin() && steps < kStepsBackMax; ++steps) {
    --entry;
    if (entry->end > address) return {entry->address, entry->end - entry->address, name_of(*entry)};
    if (entry->highest_end <= address) break;
  }
  return {};
}

std::size_t SymbolTable::memory_bytes() const {
  return entries_.capacity() * sizeof(Entry) + names_.capacity();
}

}  // namespace pillion::symbolize
