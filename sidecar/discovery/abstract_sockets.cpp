// SPDX-License-Identifier: Apache-2.0
#include "discovery/abstract_sockets.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>

#include "base/unique_fd.h"

namespace pillion::discovery {
namespace {

constexpr std::size_t kBytesMax = std::size_t{4} << 20;

// "Num: RefCount Protocol Flags Type St Inode Path": the fields of one line, all that there are.
std::array<std::string_view, 8> split(std::string_view line) {
  std::array<std::string_view, 8> fields;
  for (std::string_view& field : fields) {
    while (line.starts_with(' ')) line.remove_prefix(1);
    const std::size_t end = &field == &fields.back() ? line.size() : std::min(line.find(' '), line.size());
    field = line.substr(0, end);
    line.remove_prefix(end);
  }
  return fields;
}

}  // namespace

std::vector<AbstractSocket> parse_abstract_sockets(std::string_view table) {
  constexpr std::string_view kListens = "00010000";  // __SO_ACCEPTCON; what accept() made has the same name
  std::vector<AbstractSocket> found;
  while (!table.empty()) {
    const std::size_t end = std::min(table.find('\n'), table.size());
    const auto fields = split(table.substr(0, end));
    table.remove_prefix(std::min(end + 1, table.size()));
    const std::string_view name = fields[7];
    if (fields[3] != kListens || !name.starts_with('@')) continue;
    auto address = parse_socket_name("", name.substr(1));
    if (!address) continue;
    AbstractSocket socket{std::move(*address), 0};
    socket.address.path = std::string(name);
    std::from_chars(fields[6].data(), fields[6].data() + fields[6].size(), socket.inode);
    found.push_back(std::move(socket));
  }
  return found;
}

std::vector<AbstractSocket> list_abstract_sockets(const std::string& table_path) {
  const UniqueFd file(::open(table_path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file.valid()) return {};
  std::string text;
  std::array<char, 65'536> piece;
  while (text.size() < kBytesMax) {
    const ssize_t got = ::read(file.get(), piece.data(), piece.size());
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    text.append(piece.data(), static_cast<std::size_t>(got));
  }
  return parse_abstract_sockets(text);
}

}  // namespace pillion::discovery
