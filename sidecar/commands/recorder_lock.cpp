// SPDX-License-Identifier: Apache-2.0
#include "commands/recorder_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

namespace pillion::commands {
namespace fs = std::filesystem;

Result<RecorderLock> RecorderLock::create(const fs::path& folder) {
  std::error_code error;
  const auto whole = fs::absolute(folder, error);  // the command may change its folder
  const auto path = (error ? folder : whole) / ("recorder-" + std::to_string(::getpid()));
  ::unlink(path.c_str());  // of an earlier process with our pid
  UniqueFd file(::open(path.c_str(), O_RDONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0444));
  if (!file.valid()) return fail_errno("make", path);
  ::fchmod(file.get(), 0444);
  if (::flock(file.get(), LOCK_EX | LOCK_NB) != 0) {
    auto failed = fail_errno("lock", path);
    ::unlink(path.c_str());
    return failed;
  }
  return RecorderLock(path, std::move(file));
}

RecorderLock::RecorderLock(RecorderLock&& other) noexcept
    : path_(std::move(other.path_)), file_(std::move(other.file_)) {}

void RecorderLock::release() {
  if (!file_.valid()) return;
  ::unlink(path_.c_str());
  file_.reset();
}

}  // namespace pillion::commands
