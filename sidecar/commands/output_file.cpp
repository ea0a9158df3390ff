// SPDX-License-Identifier: Apache-2.0
#include "commands/output_file.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <cstdio>
#include <cstdlib>

namespace pillion::commands {
namespace fs = std::filesystem;

Result<OutputFile> OutputFile::create(const fs::path& path, mode_t mode) {
  struct stat status {};
  if (::stat(path.c_str(), &status) == 0 && !S_ISREG(status.st_mode)) {
    UniqueFd file(::open(path.c_str(), O_WRONLY | O_CLOEXEC));
    if (!file.valid()) return fail_errno("write", path);
    return OutputFile(path, {}, std::move(file));
  }
  std::string temporary = (path.parent_path() / ("." + path.filename().string() + ".XXXXXX")).string();
  UniqueFd file(::mkostemp(temporary.data(), O_CLOEXEC));
  if (!file.valid()) return fail_errno("write", path);
  OutputFile made(path, temporary, std::move(file));
  if (::fchmod(made.file_.get(), mode) != 0) return fail_errno("set the mode of", temporary);
  return made;
}

OutputFile::OutputFile(OutputFile&& other) noexcept
    : path_(std::move(other.path_)),
      temporary_(std::exchange(other.temporary_, fs::path())),
      file_(std::move(other.file_)) {}

OutputFile::~OutputFile() {
  if (!temporary_.empty()) ::unlink(temporary_.c_str());
}

Result<void> OutputFile::write(std::string_view bytes) {
  while (!bytes.empty()) {
    const auto written = ::write(file_.get(), bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return fail_errno("write", path_);
    bytes.remove_prefix(static_cast<std::size_t>(written));
  }
  return {};
}

Result<void> OutputFile::commit() {
  if (temporary_.empty()) return {};
  if (::fsync(file_.get()) != 0) return fail_errno("write", path_);
  if (::rename(temporary_.c_str(), path_.c_str()) != 0) return fail_errno("rename to", path_);
  temporary_.clear();
  return {};
}

}  // namespace pillion::commands
