// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <elfutils/libdw.h>

#include <cstdint>
#include <vector>

namespace pillion::symbolize {

// One function or inlined call in a compile unit. Strings belong to the Dwarf handle.
struct Scope {
  const char* linkage_name = nullptr;
  const char* name = nullptr;
  const char* call_source = nullptr;  // inlined: where it was called
  std::uint32_t call_line = 0;
  std::uint32_t start_line = 0;
  std::uint32_t parent = 0;  // index + 1; 0: none
  bool inlined = false;
};

// The functions of one compile unit by address, from one walk over its entries.
class ScopeTable {
 public:
  static constexpr std::size_t kEntriesMax = 4U << 20;  // entries visited; the rest of the unit is left out
  static constexpr unsigned kDepthMax = 128;
  static constexpr unsigned kInlineDepthMax = 64;  // frames given for one address

  explicit ScopeTable(Dwarf_Die unit);

  // Innermost first; empty when no function covers the address.
  [[nodiscard]] std::vector<const Scope*> find(std::uint64_t address) const;

 private:
  struct Piece {
    std::uint64_t low = 0;
    std::uint64_t high = 0;
    std::uint64_t highest_end = 0;  // of this and all before it
    std::uint32_t scope = 0;
    std::uint32_t depth = 0;
  };

  void walk(Dwarf_Die* parent_die, std::uint32_t parent, unsigned depth);
  std::uint32_t add(Dwarf_Die* die, int tag, std::uint32_t parent, unsigned depth);

  Dwarf_Files* files_ = nullptr;
  std::size_t file_count_ = 0;
  std::size_t visited_ = 0;
  std::vector<Scope> scopes_;
  std::vector<Piece> pieces_;
};

}  // namespace pillion::symbolize
