// SPDX-License-Identifier: Apache-2.0
#include "symbolize/scope_table.h"

#include <dwarf.h>

#include <algorithm>
#include <tuple>

namespace pillion::symbolize {
namespace {

constexpr int kStepsBackMax = 4096;
constexpr std::size_t kRangesPerEntryMax = 65536;

bool may_hold_functions(int tag) {
  switch (tag) {
    case DW_TAG_namespace:
    case DW_TAG_module:
    case DW_TAG_structure_type:
    case DW_TAG_class_type:
    case DW_TAG_union_type:
    case DW_TAG_lexical_block:
    case DW_TAG_try_block:
    case DW_TAG_catch_block:
      return true;
    default:
      return false;
  }
}

const char* string_of(Dwarf_Die* die, unsigned name) {
  Dwarf_Attribute attribute;
  return dwarf_formstring(dwarf_attr_integrate(die, name, &attribute));
}

std::uint64_t number_of(Dwarf_Die* die, unsigned name) {
  Dwarf_Attribute attribute;
  Dwarf_Word value = 0;
  return dwarf_formudata(dwarf_attr(die, name, &attribute), &value) == 0 ? value : 0;
}

}  // namespace

ScopeTable::ScopeTable(Dwarf_Die unit) {
  if (dwarf_getsrcfiles(&unit, &files_, &file_count_) != 0) files_ = nullptr;
  walk(&unit, 0, 0);
  // Outer before inner, so that looking back from an address meets the innermost first.
  std::sort(pieces_.begin(), pieces_.end(), [](const Piece& left, const Piece& right) {
    return std::tuple(left.low, right.high, left.depth) < std::tuple(right.low, left.high, right.depth);
  });
  std::uint64_t highest = 0;
  for (Piece& piece : pieces_) piece.highest_end = highest = std::max(highest, piece.high);
}

void ScopeTable::walk(Dwarf_Die* parent_die, std::uint32_t parent, unsigned depth) {
  Dwarf_Die die;
  if (depth >= kDepthMax || dwarf_child(parent_die, &die) != 0) return;
  do {
    if (++visited_ > kEntriesMax) return;
    const int tag = dwarf_tag(&die);
    if (tag == DW_TAG_subprogram || tag == DW_TAG_inlined_subroutine) {
      const std::uint32_t scope = add(&die, tag, parent, depth);
      if (scope != 0) walk(&die, scope, depth + 1);
    } else if (may_hold_functions(tag)) {
      walk(&die, parent, depth + 1);
    }
  } while (dwarf_siblingof(&die, &die) == 0);
}

std::uint32_t ScopeTable::add(Dwarf_Die* die, int tag, std::uint32_t parent, unsigned depth) {
  const auto index = static_cast<std::uint32_t>(scopes_.size());
  const std::size_t before = pieces_.size();
  Dwarf_Addr base = 0;
  Dwarf_Addr low = 0;
  Dwarf_Addr high = 0;
  std::ptrdiff_t at = 0;
  while (pieces_.size() - before < kRangesPerEntryMax && (at = dwarf_ranges(die, at, &base, &low, &high)) > 0)
    if (low < high && low != 0) pieces_.push_back({low, high, 0, index, depth});
  if (pieces_.size() == before) return 0;  // a declaration or the abstract form of an inlined function
  Scope scope;
  scope.linkage_name = string_of(die, DW_AT_linkage_name);
  if (scope.linkage_name == nullptr) scope.linkage_name = string_of(die, DW_AT_MIPS_linkage_name);
  scope.name = dwarf_diename(die);
  int line = 0;
  if (dwarf_decl_line(die, &line) == 0 && line > 0) scope.start_line = static_cast<std::uint32_t>(line);
  if (tag == DW_TAG_inlined_subroutine && parent != 0) {
    scope.inlined = true;
    scope.parent = parent;
    scope.call_line = static_cast<std::uint32_t>(number_of(die, DW_AT_call_line));
    const std::uint64_t file = number_of(die, DW_AT_call_file);
    if (files_ != nullptr && file < file_count_)
      scope.call_source = dwarf_filesrc(files_, file, nullptr, nullptr);
  }
  scopes_.push_back(scope);
  return index + 1;
}

std::vector<const Scope*> ScopeTable::find(std::uint64_t address) const {
  std::vector<const Scope*> found;
  auto piece = std::upper_bound(pieces_.begin(), pieces_.end(), address,
                                [](std::uint64_t at, const Piece& other) { return at < other.low; });
  for (int steps = 0; piece != pieces_.begin() && steps < kStepsBackMax; ++steps) {
    --piece;
    if (piece->high > address) {
      const Scope* scope = &scopes_[piece->scope];
      for (;;) {
        found.push_back(scope);
        if (scope->parent == 0 || found.size() >= kInlineDepthMax) return found;
        scope = &scopes_[scope->parent - 1];
      }
    }
    if (piece->highest_end <= address) break;
  }
  return found;
}

}  // namespace pillion::symbolize
