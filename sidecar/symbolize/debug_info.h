// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <elfutils/libdw.h>

#include <cstdint>
#include <map>
#include <memory>
#include <string_view>
#include <vector>

#include "base/elf_file.h"
#include "symbolize/scope_table.h"

namespace pillion::symbolize {

// One function at an address as DWARF tells it. Strings live as long as the DebugInfo.
struct SourceFrame {
  std::string_view linkage_name;  // mangled; empty: none given
  std::string_view name;
  std::string_view source;  // path as the compiler recorded it
  std::uint32_t line = 0;
  std::uint32_t start_line = 0;
  bool inlined = false;
};

// Inline frames and lines of one ELF file from .debug_info and .debug_line. Compile units are found by their
// own ranges (code built by clang has no .debug_aranges); each is walked once, at the first address in it.
// One owner thread.
class DebugInfo {
 public:
  // libdw reads all debug sections into memory, so a larger file is left to its symbols.
  static constexpr std::uint64_t kBytesMax = 512ULL << 20;
  static constexpr std::size_t kUnitsMax = 1U << 18;
  static constexpr std::size_t kUnitRangesMax = 4U << 20;

  // Why there is none.
  enum class Absence : std::uint8_t { none, no_sections, too_large, foreign_links, malformed };

  struct Opened {
    std::unique_ptr<DebugInfo> info;  // null: see absence
    Absence absence = Absence::none;
  };
  // `trusted`: a debug file of this machine. Of others links to further files are not followed: they would
  // make this process open whatever path the workload chose.
  static Opened open(ElfFile file, bool trusted);

  // Frames at `address`, innermost first; empty when no compile unit covers it.
  [[nodiscard]] std::vector<SourceFrame> frames_at(std::uint64_t address);
  [[nodiscard]] std::uint64_t memory_bytes() const { return bytes_; }

 private:
  struct DwarfEnd {
    void operator()(Dwarf* dwarf) const { dwarf_end(dwarf); }
  };
  struct Unit {
    Dwarf_Die die{};
    bool skeleton = false;
    std::unique_ptr<ScopeTable> scopes;  // made at first use
  };
  struct UnitRange {
    std::uint64_t low = 0;
    std::uint64_t high = 0;
    std::uint32_t unit = 0;
  };

  explicit DebugInfo(ElfFile file) : file_(std::move(file)) {}
  void find_units();
  void add_ranges(Dwarf_Die* die, std::uint32_t unit);
  [[nodiscard]] Unit* unit_at(std::uint64_t address);

  ElfFile file_;  // outlives dwarf_
  std::unique_ptr<Dwarf, DwarfEnd> dwarf_;
  std::uint64_t bytes_ = 0;
  std::vector<Unit> units_;
  std::vector<UnitRange> ranges_;  // sorted by low
};

}  // namespace pillion::symbolize
