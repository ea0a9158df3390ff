// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>

#include "base/result.h"

namespace pillion::commands {

// A new folder of mode 0700 in $TMPDIR or /tmp, removed with what is in it.
class PrivateFolder {
 public:
  [[nodiscard]] static Result<PrivateFolder> create();
  PrivateFolder(PrivateFolder&& other) noexcept
      : path_(std::exchange(other.path_, std::filesystem::path())) {}
  PrivateFolder& operator=(PrivateFolder&&) = delete;
  ~PrivateFolder();

  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

 private:
  explicit PrivateFolder(std::filesystem::path path) : path_(std::move(path)) {}

  std::filesystem::path path_;
};

}  // namespace pillion::commands
