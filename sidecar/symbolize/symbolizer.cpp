// SPDX-License-Identifier: Apache-2.0
#include "symbolize/symbolizer.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>

#include "base/demangle.h"
#include "symbolize/debug_files.h"
#include "symbolize/debug_info.h"
#include "symbolize/function_ranges.h"
#include "symbolize/symbol_table.h"

namespace pillion::symbolize {
namespace {

std::string hex(std::uint64_t number) {
  std::array<char, 16> digits;
  const auto end = std::to_chars(digits.begin(), digits.end(), number, 16).ptr;
  return "0x" + std::string(digits.begin(), end);
}

ResolvedFrame named(std::string_view mangled) {
  ResolvedFrame frame;
  frame.system_name = mangled;
  frame.function = demangle(mangled);
  return frame;
}

// The same file in several containers shares one module.
std::string module_key(const FileInfo& info) {
  if (info.build_id.empty()) return "#" + std::to_string(info.id);
  return info.build_id + "/" + std::to_string(info.bytes);
}

}  // namespace

struct Symbolizer::Module {
  std::optional<ElfFile> file;
  SymbolTable symbols;
  std::unique_ptr<DebugInfo> debug_info;
  std::optional<FunctionRanges> ranges;  // made at first need; goes before `file`
  std::uint64_t memory_bytes = 0;
  std::uint64_t used = 0;
};

Symbolizer::Symbolizer(const FileTable& files, std::string debug_root, SymbolizeLimits limits)
    : files_(files), debug_root_(std::move(debug_root)), limits_(limits) {}

Symbolizer::~Symbolizer() = default;

const std::vector<ResolvedFrame>& Symbolizer::resolve(std::uint32_t file, std::uint64_t address,
                                                      bool is_return) {
  ++counters_.lookups;
  const Key key{file, address - (is_return ? 1 : 0)};
  const auto found = resolved_.find(key);
  if (found != resolved_.end()) return found->second;
  if (resolved_.size() >= limits_.cached_addresses) resolved_.clear();
  ++counters_.computed;
  return resolved_.emplace(key, compute(key.file, key.address)).first->second;
}

std::vector<ResolvedFrame> Symbolizer::compute(std::uint32_t file, std::uint64_t address) {
  const auto info = files_.find(file);
  if (info == nullptr) return {named("[code without a file]")};
  if (!info->content.valid()) {
    ++counters_.named_by_address;
    return {named(info->name() + "+" + hex(address))};
  }
  Module& module = module_of(*info);
  module.used = ++uses_;
  std::vector<SourceFrame> source_frames;
  if (module.debug_info != nullptr) source_frames = module.debug_info->frames_at(address);
  const Symbol symbol = module.symbols.find(address);
  std::vector<ResolvedFrame> frames;
  for (const SourceFrame& source : source_frames) {
    std::string_view mangled = source.linkage_name;
    // Functions with C linkage have no linkage name; the symbol's is the one that tools know.
    if (mangled.empty() && !source.inlined) mangled = symbol.name;
    if (mangled.empty()) mangled = source.name;
    if (mangled.empty()) break;
    ResolvedFrame frame = named(mangled);
    frame.source = source.source;
    frame.line = source.line;
    frame.start_line = source.start_line;
    frame.inlined = source.inlined;
    frames.push_back(std::move(frame));
  }
  if (!frames.empty()) {
    ++counters_.named_by_debug_info;
    return frames;
  }
  if (symbol.name.data() != nullptr) {
    ++counters_.named_by_symbol;
    return {named(symbol.name)};
  }
  return {named(name_by_range(module, *info, address))};
}

std::string Symbolizer::name_by_range(Module& module, const FileInfo& info, std::uint64_t address) {
  if (module.file && !module.ranges) module.ranges.emplace(*module.file);
  const auto start = module.ranges ? module.ranges->start_of(address) : std::nullopt;
  ++(start ? counters_.named_by_range : counters_.named_by_address);
  return info.name() + "+" + hex(start.value_or(address));
}

Symbolizer::Module& Symbolizer::module_of(const FileInfo& info) {
  auto& module = modules_[module_key(info)];
  if (module == nullptr) {
    module = std::make_unique<Module>();
    load(*module, info);
    memory_bytes_ += module->memory_bytes;
    evict(*module);
  }
  return *module;
}

void Symbolizer::load(Module& module, const FileInfo& info) {
  auto file = ElfFile::open(info.content, info.path);
  if (!file) {
    ++counters_.files_failed;
    return;
  }
  ++counters_.files_opened;
  module.file.emplace(std::move(*file));
  module.symbols.add(module.file->elf());
  if (const auto packed = unpack_debugdata(*module.file)) module.symbols.add(packed->elf());
  load_debug_info(module, info);
  module.symbols.build();
  if (module.symbols.was_cut()) ++counters_.symbols_cut;
  module.memory_bytes = module.symbols.memory_bytes();
  if (module.debug_info != nullptr) module.memory_bytes += module.debug_info->memory_bytes();
}

void Symbolizer::load_debug_info(Module& module, const FileInfo& info) {
  const auto count = [this](DebugInfo::Absence absence) {
    if (absence == DebugInfo::Absence::too_large) ++counters_.debug_info_too_large;
    if (absence == DebugInfo::Absence::malformed || absence == DebugInfo::Absence::foreign_links)
      ++counters_.debug_info_refused;
  };
  if (auto own = ElfFile::open(info.content, info.path)) {
    auto opened = DebugInfo::open(std::move(*own), false);
    module.debug_info = std::move(opened.info);
    count(opened.absence);
  }
  if (module.debug_info != nullptr) return;
  auto separate = open_debug_file(debug_root_, info.build_id);
  if (!separate) return;
  module.symbols.add(separate->elf());
  auto opened = DebugInfo::open(std::move(*separate), true);
  module.debug_info = std::move(opened.info);
  count(opened.absence);
}

void Symbolizer::evict(const Module& keep) {
  while (memory_bytes_ > limits_.memory_bytes && modules_.size() > 1) {
    auto oldest = modules_.end();
    for (auto module = modules_.begin(); module != modules_.end(); ++module)
      if (module->second.get() != &keep &&
          (oldest == modules_.end() || module->second->used < oldest->second->used))
        oldest = module;
    memory_bytes_ -= oldest->second->memory_bytes;
    modules_.erase(oldest);
    ++counters_.files_evicted;
  }
}

}  // namespace pillion::symbolize
