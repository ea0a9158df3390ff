// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <elfutils/libdw.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "base/elf_file.h"
#include "unwind/frame_rules.h"
#include "unwind/row.h"

namespace pillion::unwind {

// The call frame information of one ELF file: .eh_frame, then .debug_frame. Opening reads the section (1-58
// ms measured); a first lookup costs 0.2-2 us, for files without a search table up to tens of ms. One owner
// thread: a Dwarf_CFI shared by threads crashes.
class CfiTable {
 public:
  // A .debug_frame is only read when the file's debug sections are at most this large.
  static constexpr std::uint64_t kDebugBytesMax = 256ULL << 20;

  explicit CfiTable(ElfFile file);
  CfiTable(const CfiTable&) = delete;
  CfiTable& operator=(const CfiTable&) = delete;

  // The row at an ELF virtual address. CfaRule::slow: get rules_at().
  [[nodiscard]] Row row_at(std::uint64_t address);
  [[nodiscard]] std::optional<FrameRules> rules_at(std::uint64_t address);

 private:
  struct CfiEnd {
    void operator()(Dwarf_CFI* cfi) const { dwarf_cfi_end(cfi); }
  };
  struct DwarfEnd {
    void operator()(Dwarf* dwarf) const { dwarf_end(dwarf); }
  };
  struct FrameFree {
    void operator()(Dwarf_Frame* frame) const;
  };
  using Frame = std::unique_ptr<Dwarf_Frame, FrameFree>;

  [[nodiscard]] Frame frame_at(std::uint64_t address);
  [[nodiscard]] bool starts_at(std::uint64_t address);
  [[nodiscard]] bool is_root_function(std::uint64_t address);
  void open_debug_frame();
  void find_roots();

  struct FunctionRange {
    std::uint64_t start = 0;
    std::uint64_t bytes = 0;
  };

  ElfFile file_;  // outlives what is made from it: members below go first
  std::unique_ptr<Dwarf, DwarfEnd> dwarf_;
  std::unique_ptr<Dwarf_CFI, CfiEnd> eh_frame_;
  Dwarf_CFI* debug_frame_ = nullptr;  // owned by dwarf_
  bool debug_frame_tried_ = false;
  std::optional<std::vector<FunctionRange>> roots_;  // found at first need
};

}  // namespace pillion::unwind
