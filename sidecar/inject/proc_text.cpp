// SPDX-License-Identifier: Apache-2.0
#include "inject/proc_text.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>

#include "base/unique_fd.h"

namespace pillion::inject {

std::string read_proc_text(const std::string& path, std::size_t bytes_max) {
  const UniqueFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  std::string text;
  if (!file.valid()) return text;
  char piece[16'384];
  while (text.size() < bytes_max) {
    const ssize_t got = ::read(file.get(), piece, std::min(sizeof piece, bytes_max - text.size()));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    text.append(piece, static_cast<std::size_t>(got));
  }
  return text;
}

std::uint64_t process_start_time(const std::string& proc_root, std::uint32_t pid) {
  const std::string text = read_proc_text(proc_root + "/" + std::to_string(pid) + "/stat");
  std::size_t at = text.rfind(')');  // behind field 2, which may hold anything
  for (int blanks = 0; at != std::string::npos && blanks < 20; ++blanks) at = text.find(' ', at + 1);
  return at == std::string::npos ? 0 : std::strtoull(text.c_str() + at + 1, nullptr, 10);
}

}  // namespace pillion::inject
