// SPDX-License-Identifier: Apache-2.0
#include "unwind/interpreter_files.h"

#include <gelf.h>

#include <algorithm>
#include <string_view>

namespace pillion::unwind {
namespace {

constexpr std::uint64_t kSymbolsMax = 1U << 20;
constexpr std::size_t kRangesMax = 64;
constexpr std::string_view kEvalLoop = "_PyEval_EvalFrameDefault";

// With the parts that compilers split off: `_PyEval_EvalFrameDefault.cold`, `.lto_priv.0`.
bool names_eval_loop(std::string_view name) {
  return name.starts_with(kEvalLoop) && (name.size() == kEvalLoop.size() || name[kEvalLoop.size()] == '.');
}

template <typename Take>
void each_eval_symbol(Elf* elf, unsigned type, Take take) {
  Elf_Scn* section = nullptr;
  while ((section = elf_nextscn(elf, section)) != nullptr) {
    GElf_Shdr header;
    if (gelf_getshdr(section, &header) == nullptr || header.sh_type != type) continue;
    Elf_Data* data = elf_getdata(section, nullptr);
    const std::uint64_t count = data == nullptr ? 0 : data->d_size / sizeof(Elf64_Sym);
    for (std::uint64_t i = 0; i < std::min(count, kSymbolsMax); ++i) {
      GElf_Sym symbol;
      if (gelf_getsym(data, static_cast<int>(i), &symbol) == nullptr) break;
      if (GELF_ST_TYPE(symbol.st_info) != STT_FUNC || symbol.st_shndx == SHN_UNDEF) continue;
      const char* name = elf_strptr(elf, header.sh_link, symbol.st_name);
      if (name != nullptr && names_eval_loop(name)) take(symbol);
    }
  }
}

}  // namespace

InterpreterFiles::Known& InterpreterFiles::known(std::uint32_t file) {
  const auto [found, made] = known_.try_emplace(file);
  if (made) {
    if (const auto info = files_.find(file)) {
      const std::string name = info->name();
      found->second.interpreter = name.starts_with("libpython") || name.starts_with("python");
      found->second.program = name.find(".so") == std::string::npos;
      found->second.greenlet = name.starts_with("_greenlet.");
    }
  }
  return found->second;
}

bool InterpreterFiles::is_interpreter(std::uint32_t file) { return known(file).interpreter; }

bool InterpreterFiles::is_program(std::uint32_t file) { return file != 0 && known(file).program; }

bool InterpreterFiles::is_greenlet(std::uint32_t file) { return file != 0 && known(file).greenlet; }

bool InterpreterFiles::is_eval_loop(const UnwoundFrame& frame) {
  if (frame.file == 0) return false;
  Known& file = known(frame.file);
  if (!file.searched) search(frame.file, file);
  const std::uint64_t address = frame.address - (frame.is_return ? 1 : 0);
  return std::any_of(file.eval_loop.begin(), file.eval_loop.end(),
                     [address](const Range& range) { return address - range.start < range.bytes; });
}

// The loop is exported. Its split-off parts are local, and looked for only where the loop itself was found:
// other files may have a million local symbols.
void InterpreterFiles::search(std::uint32_t file, Known& known) const {
  known.searched = true;
  const auto info = files_.find(file);
  if (info == nullptr || !info->content.valid()) return;
  const auto elf = ElfFile::open(info->content, info->path);
  if (!elf) return;
  const auto take = [&known](const GElf_Sym& symbol) {
    if (known.eval_loop.size() < kRangesMax) known.eval_loop.push_back({symbol.st_value, symbol.st_size});
  };
  each_eval_symbol(elf->elf(), SHT_DYNSYM, take);
  if (!known.eval_loop.empty() || known.interpreter) each_eval_symbol(elf->elf(), SHT_SYMTAB, take);
}

}  // namespace pillion::unwind
