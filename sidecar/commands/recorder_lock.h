// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>

#include "base/result.h"
#include "base/unique_fd.h"

namespace pillion::commands {

// The file whose lock tells the shims of a recorded command that somebody waits for them (PILLION_RECORDER):
// their programs' cuInit goes on at once when nobody does. Locked from create() to release(), by the kernel's
// word also when this process is killed.
class RecorderLock {
 public:
  // In the folder of the sockets, where both sides look; readable for every user, as the sockets are.
  [[nodiscard]] static Result<RecorderLock> create(const std::filesystem::path& folder);
  RecorderLock(RecorderLock&& other) noexcept;
  RecorderLock& operator=(RecorderLock&&) = delete;
  ~RecorderLock() { release(); }

  [[nodiscard]] const std::filesystem::path& path() const { return path_; }
  void release();  // and removes the file; more often is harmless

 private:
  RecorderLock(std::filesystem::path path, UniqueFd file) : path_(std::move(path)), file_(std::move(file)) {}

  std::filesystem::path path_;
  UniqueFd file_;
};

}  // namespace pillion::commands
