// SPDX-License-Identifier: Apache-2.0
#include "unwind/maps_table.h"

#include <sys/sysmacros.h>

#include <algorithm>
#include <atomic>
#include <charconv>
#include <optional>

namespace pillion::unwind {
namespace {

constexpr std::string_view kDeleted = " (deleted)";

// Takes a number and the character after it off the front of `text`.
bool take_number(std::string_view& text, int base, char after, std::uint64_t& number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number, base);
  if (error != std::errc()) return false;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  if (text.empty() || text.front() != after) return false;
  text.remove_prefix(1);
  return true;
}

MappingKind kind_of(const Mapping& mapping) {
  if (mapping.path == "[vdso]") return MappingKind::vdso;
  if (mapping.path == "[vsyscall]") return MappingKind::vsyscall;
  return mapping.inode != 0 && !mapping.path.empty() && mapping.path.front() == '/' ? MappingKind::file
                                                                                    : MappingKind::anonymous;
}

struct Line {
  Mapping mapping;
  bool executable = false;
};

std::optional<Line> parse_line(std::string_view text) {
  Line line;
  Mapping& mapping = line.mapping;
  if (!take_number(text, 16, '-', mapping.start) || !take_number(text, 16, ' ', mapping.end))
    return std::nullopt;
  if (mapping.start >= mapping.end || text.size() < 5 || text[4] != ' ') return std::nullopt;
  line.executable = text[2] == 'x';
  text.remove_prefix(5);
  std::uint64_t major = 0;
  std::uint64_t minor = 0;
  if (!take_number(text, 16, ' ', mapping.offset) || !take_number(text, 16, ':', major) ||
      !take_number(text, 16, ' ', minor))
    return std::nullopt;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), mapping.inode);
  if (error != std::errc()) return std::nullopt;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  text.remove_prefix(std::min(text.find_first_not_of(' '), text.size()));
  if (text.size() > MapsTable::kPathMax) return std::nullopt;
  if (mapping.offset + (mapping.end - mapping.start) < mapping.offset) return std::nullopt;
  mapping.device = makedev(static_cast<unsigned>(major), static_cast<unsigned>(minor));
  if (text.ends_with(kDeleted)) {
    mapping.deleted = true;
    text.remove_suffix(kDeleted.size());
  }
  mapping.path = text;
  mapping.kind = kind_of(mapping);
  return line;
}

}  // namespace

MapsTable MapsTable::parse(std::string_view text) {
  static std::atomic<std::uint64_t> serials{0};
  MapsTable table;
  table.serial_ = serials.fetch_add(1, std::memory_order_relaxed) + 1;
  if (text.size() > kTextBytesMax) {
    text = text.substr(0, kTextBytesMax);
    text = text.substr(0, text.rfind('\n') + 1);
    ++table.rejected_;
  }
  std::uint64_t last_end = 0;
  while (!text.empty()) {
    const auto newline = text.find('\n');
    const auto line = parse_line(text.substr(0, newline));
    text.remove_prefix(newline == std::string_view::npos ? text.size() : newline + 1);
    if (!line || line->mapping.start < last_end) {
      ++table.rejected_;
      continue;
    }
    last_end = line->mapping.end;
    if (!line->executable) continue;
    if (table.mappings_.size() >= kMappingsMax) {
      ++table.rejected_;
      continue;
    }
    table.mappings_.push_back(line->mapping);
  }
  return table;
}

const Mapping* MapsTable::find(std::uint64_t pc) const {
  const auto after =
      std::upper_bound(mappings_.begin(), mappings_.end(), pc,
                       [](std::uint64_t address, const Mapping& m) { return address < m.start; });
  if (after == mappings_.begin()) return nullptr;
  const Mapping& mapping = *(after - 1);
  return pc < mapping.end ? &mapping : nullptr;
}

}  // namespace pillion::unwind
