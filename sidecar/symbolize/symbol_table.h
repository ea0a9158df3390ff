// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

struct Elf;

namespace pillion::symbolize {

struct Symbol {
  std::uint64_t address = 0;
  std::uint64_t bytes = 0;
  std::string_view name;  // mangled; lives as long as the table
};

// The function symbols of one or more ELF files with the same addresses, sorted once. Immutable after
// build().
class SymbolTable {
 public:
  static constexpr std::size_t kSymbolsMax = 8U << 20;  // further ones are left out
  static constexpr std::size_t kNameBytesMax = 1U << 30;
  static constexpr std::size_t kNameMax = 65535;

  // Takes in .symtab and .dynsym. May be called for several files before build().
  void add(Elf* elf);
  void build();

  // The innermost symbol whose bytes hold `address`; a null name when none does.
  [[nodiscard]] Symbol find(std::uint64_t address) const;
  [[nodiscard]] std::size_t size() const { return entries_.size(); }
  [[nodiscard]] std::size_t memory_bytes() const;
  [[nodiscard]] bool was_cut() const { return cut_; }

 private:
  struct Entry {
    std::uint64_t address = 0;
    std::uint64_t end = 0;
    std::uint64_t highest_end = 0;  // of this and all before it: where looking back may stop
    std::uint32_t name = 0;
    std::uint16_t name_bytes = 0;
    std::uint8_t rank = 0;  // lower is the better of several names
  };

  [[nodiscard]] std::string_view name_of(const Entry& entry) const {
    return std::string_view(names_).substr(entry.name, entry.name_bytes);
  }
  void add_section(Elf* elf, void* section);

  std::vector<Entry> entries_;
  std::string names_;
  bool cut_ = false;
};

}  // namespace pillion::symbolize
