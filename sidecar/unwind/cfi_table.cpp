// SPDX-License-Identifier: Apache-2.0
#include "unwind/cfi_table.h"

#include <dwarf.h>
#include <gelf.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <span>
#include <string_view>

#include "unwind/row_shape.h"

namespace pillion::unwind {
namespace {

constexpr std::array<int, PILLION_REG_COUNT> kDwarfNumbers = {16, 7, 6, 3, 12, 13, 14, 15};
constexpr std::uint64_t kSymbolsMax = 1U << 20;
constexpr std::size_t kRootsMax = 64;

// Functions that nothing called: entry points of programs and threads.
constexpr std::array<std::string_view, 8> kRootFunctions = {
    "_start", "__libc_start_main", "main", "clone", "__clone", "clone3", "__clone3", "start_thread"};

RegisterRule rule_of(Dwarf_Frame* frame, unsigned index) {
  Dwarf_Op memory[3];
  Dwarf_Op* operations = nullptr;
  std::size_t count = 0;
  RegisterRule rule;
  if (dwarf_frame_register(frame, kDwarfNumbers[index], memory, &operations, &count) != 0) {
    rule.kind = RegisterRule::Kind::undefined;
    return rule;
  }
  if (count == 0) {
    // libdw marks rbx undefined by default, but the ABI says that callees keep it.
    const bool same = operations == nullptr || index == PILLION_REG_RBX;
    rule.kind = same ? RegisterRule::Kind::same : RegisterRule::Kind::undefined;
    return rule;
  }
  const std::span found(operations, count);
  rule.operations.assign(found.begin(), found.end());
  if (found.front().atom == DW_OP_regx ||
      (found.front().atom >= DW_OP_reg0 && found.front().atom <= DW_OP_reg31)) {
    Dwarf_Op& first = rule.operations.front();
    if (first.atom != DW_OP_regx) first.number = first.atom - DW_OP_reg0;
    first.atom = DW_OP_bregx;
    first.number2 = 0;
    rule.kind = RegisterRule::Kind::value;
    return rule;
  }
  const bool value = found.back().atom == DW_OP_stack_value;
  rule.kind = value ? RegisterRule::Kind::value : RegisterRule::Kind::memory;
  return rule;
}

}  // namespace

void CfiTable::FrameFree::operator()(Dwarf_Frame* frame) const { std::free(frame); }

CfiTable::CfiTable(ElfFile file) : file_(std::move(file)), eh_frame_(dwarf_getcfi_elf(file_.elf())) {}

void CfiTable::open_debug_frame() {
  debug_frame_tried_ = true;
  bool present = false;
  std::size_t names = 0;
  if (elf_getshdrstrndx(file_.elf(), &names) != 0) return;
  Elf_Scn* section = nullptr;
  while (!present && (section = elf_nextscn(file_.elf(), section)) != nullptr) {
    GElf_Shdr header;
    if (gelf_getshdr(section, &header) == nullptr || header.sh_type == SHT_NOBITS) continue;
    const char* name = elf_strptr(file_.elf(), names, header.sh_name);
    present = name != nullptr && std::string_view(name) == ".debug_frame";
  }
  if (!present || file_.debug_bytes() > kDebugBytesMax) return;
  dwarf_.reset(dwarf_begin_elf(file_.elf(), DWARF_C_READ, nullptr));
  if (dwarf_ != nullptr) debug_frame_ = dwarf_getcfi(dwarf_.get());
}

CfiTable::Frame CfiTable::frame_at(std::uint64_t address) {
  Dwarf_Frame* frame = nullptr;
  if (eh_frame_ != nullptr && dwarf_cfi_addrframe(eh_frame_.get(), address, &frame) == 0) return Frame(frame);
  if (!debug_frame_tried_) open_debug_frame();
  if (debug_frame_ != nullptr && dwarf_cfi_addrframe(debug_frame_, address, &frame) == 0) return Frame(frame);
  return nullptr;
}

bool CfiTable::starts_at(std::uint64_t address) {
  const Frame frame = frame_at(address);
  Dwarf_Addr start = 0;
  return frame != nullptr && dwarf_frame_info(frame.get(), &start, nullptr, nullptr) >= 0 && start == address;
}

Row CfiTable::row_at(std::uint64_t address) {
  const Frame frame = frame_at(address);
  Row row;
  if (frame == nullptr) {
    row.root = is_root_function(address);
    row.planted = !row.root && starts_at(address + 1);
    return row;
  }
  bool signal = false;
  const int return_register = dwarf_frame_info(frame.get(), nullptr, nullptr, &signal);
  row.signal = signal;
  if (return_register != kDwarfNumbers[PILLION_REG_RIP]) return row;
  Dwarf_Op memory[3];
  Dwarf_Op* operations = nullptr;
  std::size_t count = 0;
  if (dwarf_frame_register(frame.get(), return_register, memory, &operations, &count) != 0) return row;
  const auto return_shape = shape_of_register({operations, count}, operations != nullptr);
  row.root = return_shape.kind == RegisterShape::Kind::undefined;
  const bool return_plain = return_shape.kind == RegisterShape::Kind::at_cfa && return_shape.offset == -8;

  if (dwarf_frame_register(frame.get(), kDwarfNumbers[PILLION_REG_RSP], memory, &operations, &count) != 0)
    return row;
  const auto stack_shape = shape_of_register({operations, count}, operations != nullptr);
  const bool stack_plain = stack_shape.kind == RegisterShape::Kind::is_cfa && stack_shape.offset == 0;

  if (dwarf_frame_register(frame.get(), kDwarfNumbers[PILLION_REG_RBP], memory, &operations, &count) != 0)
    return row;
  const bool frame_plain = set_rbp(row, shape_of_register({operations, count}, operations != nullptr));

  if (dwarf_frame_cfa(frame.get(), &operations, &count) != 0) return row;
  if (!set_cfa(row, {operations, count}) || !(return_plain || row.root) || !stack_plain || !frame_plain) {
    row.cfa = CfaRule::slow;
    row.cfa_offset = 0;
  }
  return row;
}

std::optional<FrameRules> CfiTable::rules_at(std::uint64_t address) {
  const Frame frame = frame_at(address);
  Dwarf_Op* operations = nullptr;
  std::size_t count = 0;
  if (frame == nullptr || dwarf_frame_cfa(frame.get(), &operations, &count) != 0 || count == 0)
    return std::nullopt;
  FrameRules rules;
  rules.cfa.assign(operations, operations + count);
  for (unsigned index = 0; index < PILLION_REG_COUNT; ++index)
    rules.registers[index] = rule_of(frame.get(), index);
  return rules;
}

bool CfiTable::is_root_function(std::uint64_t address) {
  if (!roots_) find_roots();
  for (const auto& root : *roots_)
    if (address - root.start < root.bytes) return true;
  return false;
}

void CfiTable::find_roots() {
  roots_.emplace();
  Elf_Scn* section = nullptr;
  while ((section = elf_nextscn(file_.elf(), section)) != nullptr) {
    GElf_Shdr header;
    if (gelf_getshdr(section, &header) == nullptr) continue;
    if (header.sh_type != SHT_SYMTAB && header.sh_type != SHT_DYNSYM) continue;
    Elf_Data* data = elf_getdata(section, nullptr);
    const std::uint64_t count = data == nullptr ? 0 : data->d_size / sizeof(Elf64_Sym);
    for (std::uint64_t i = 0; i < std::min(count, kSymbolsMax); ++i) {
      GElf_Sym symbol;
      if (gelf_getsym(data, static_cast<int>(i), &symbol) == nullptr) break;
      if (GELF_ST_TYPE(symbol.st_info) != STT_FUNC || roots_->size() >= kRootsMax) continue;
      const char* name = elf_strptr(file_.elf(), header.sh_link, symbol.st_name);
      if (name != nullptr &&
          std::find(kRootFunctions.begin(), kRootFunctions.end(), name) != kRootFunctions.end())
        roots_->push_back({symbol.st_value, symbol.st_size});
    }
  }
}

}  // namespace pillion::unwind
