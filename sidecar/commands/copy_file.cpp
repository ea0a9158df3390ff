// SPDX-License-Identifier: Apache-2.0
#include "commands/copy_file.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <array>
#include <string_view>

#include "base/log.h"
#include "commands/output_file.h"

namespace pillion::commands {
namespace fs = std::filesystem;

namespace {

using Buffer = std::array<char, 64 << 10>;

Result<std::size_t> read_some(const UniqueFd& file, const fs::path& name, Buffer& buffer) {
  while (true) {
    const auto got = ::read(file.get(), buffer.data(), buffer.size());
    if (got >= 0) return static_cast<std::size_t>(got);
    if (errno != EINTR) return fail_errno("read", name);
  }
}

// Whether both hold the same bytes; a file that cannot be read does not.
bool same_contents(const fs::path& left, const fs::path& right) {
  std::error_code error;
  if (fs::file_size(left, error) != fs::file_size(right, error) || error) return false;
  const UniqueFd a(::open(left.c_str(), O_RDONLY | O_CLOEXEC));
  const UniqueFd b(::open(right.c_str(), O_RDONLY | O_CLOEXEC));
  if (!a.valid() || !b.valid()) return false;
  Buffer from_a;
  Buffer from_b;
  while (true) {
    const auto got_a = read_some(a, left, from_a);
    const auto got_b = read_some(b, right, from_b);
    if (!got_a || !got_b || *got_a != *got_b) return false;
    if (*got_a == 0) return true;
    if (std::string_view(from_a.data(), *got_a) != std::string_view(from_b.data(), *got_b)) return false;
  }
}

bool is_so_already(const fs::path& from, const fs::path& to, mode_t mode) {
  struct stat status {};
  return ::lstat(to.c_str(), &status) == 0 && S_ISREG(status.st_mode) && (status.st_mode & 07777) == mode &&
         same_contents(from, to);
}

}  // namespace

Result<void> copy_file(const fs::path& from, const fs::path& to, mode_t mode) {
  if (is_so_already(from, to, mode)) {
    log(LogLevel::info, "unchanged: " + to.string());
    return {};
  }
  const UniqueFd source(::open(from.c_str(), O_RDONLY | O_CLOEXEC));
  if (!source.valid()) return fail_errno("open", from);
  auto target = OutputFile::create(to, mode);
  if (!target) return tl::make_unexpected(target.error());
  Buffer buffer;
  while (true) {
    const auto got = read_some(source, from, buffer);
    if (!got) return tl::make_unexpected(got.error());
    if (*got == 0) break;
    if (auto written = target->write({buffer.data(), *got}); !written) return written;
  }
  if (auto committed = target->commit(); !committed) return committed;
  log(LogLevel::info, "installed: " + to.string());
  return {};
}

}  // namespace pillion::commands
