// SPDX-License-Identifier: Apache-2.0
#include "inject/mapped_files.h"

#include <charconv>
#include <optional>

namespace pillion::inject {
namespace {

struct Line {
  std::uint64_t start = 0;
  std::uint64_t end = 0;
  std::uint64_t offset = 0;
  bool executable = false;
  std::string_view file;  // "08:01 1234": device and inode
  std::string_view path;
};

std::optional<std::uint64_t> take_hex(std::string_view& text, char until) {
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number, 16);
  if (error != std::errc{}) return std::nullopt;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  if (text.empty() || text.front() != until) return std::nullopt;
  text.remove_prefix(1);
  return number;
}

// start-end perms offset device inode   path
std::optional<Line> parse_line(std::string_view text) {
  Line line;
  const auto start = take_hex(text, '-');
  const auto end = start ? take_hex(text, ' ') : std::nullopt;
  if (!end || text.size() < 5) return std::nullopt;
  line.start = *start;
  line.end = *end;
  line.executable = text[2] == 'x';
  text.remove_prefix(5);
  const auto offset = take_hex(text, ' ');
  if (!offset) return std::nullopt;
  line.offset = *offset;
  const std::size_t device_end = text.find(' ');
  if (device_end == std::string_view::npos) return std::nullopt;
  const std::size_t inode_end = std::min(text.find(' ', device_end + 1), text.size());
  line.file = text.substr(0, inode_end);
  text.remove_prefix(inode_end);
  text.remove_prefix(std::min(text.find_first_not_of(' '), text.size()));
  line.path = text;
  return line;
}

}  // namespace

std::vector<MappedFile> parse_mapped_files(std::string_view maps, std::size_t files_max) {
  static constexpr std::string_view kDeleted = " (deleted)";
  std::vector<MappedFile> files;
  bool executable = false;
  std::string_view open_file;  // of files.back(), while its mappings go on
  const auto close = [&] {
    if (!open_file.empty() && !executable) files.pop_back();
    open_file = {};
  };
  while (!maps.empty()) {
    const std::size_t line_end = std::min(maps.find('\n'), maps.size());
    const auto line = parse_line(maps.substr(0, line_end));
    maps.remove_prefix(std::min(line_end + 1, maps.size()));
    // Between a library's mappings lie anonymous ones: its .bss, and gaps.
    if (!line || line->path.empty()) continue;
    if (line->file == open_file && line->offset != 0) {
      files.back().end = line->end;
      executable = executable || line->executable;
      continue;
    }
    close();
    if (line->offset != 0 || line->path.front() != '/') continue;
    if (files.size() == files_max) break;
    std::string_view path = line->path;
    if (path.ends_with(kDeleted)) path.remove_suffix(kDeleted.size());
    files.push_back({std::string(path), line->start, line->end});
    open_file = line->file;
    executable = line->executable;
  }
  close();
  return files;
}

std::string_view file_name(std::string_view path) {
  static constexpr std::string_view kMemory = "/memfd:";
  if (path.starts_with(kMemory)) return path.substr(kMemory.size());
  return path.substr(path.rfind('/') + 1);
}

}  // namespace pillion::inject
