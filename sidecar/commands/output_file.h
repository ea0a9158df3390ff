// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <string_view>

#include "base/result.h"
#include "base/unique_fd.h"

namespace pillion::commands {

// A file that appears under its name only when it is complete: written beside it, renamed by commit(),
// removed when destroyed before that. What exists under the name and is no regular file (/dev/null, a pipe)
// is written to directly.
class OutputFile {
 public:
  // Errors come here already when the folder is absent, read-only or full of inodes.
  [[nodiscard]] static Result<OutputFile> create(const std::filesystem::path& path, mode_t mode);
  OutputFile(OutputFile&& other) noexcept;
  OutputFile& operator=(OutputFile&&) = delete;
  ~OutputFile();

  [[nodiscard]] Result<void> write(std::string_view bytes);
  [[nodiscard]] Result<void> commit();

  // For who ends the program without destroying anything; empty when there is none.
  [[nodiscard]] std::filesystem::path temporary() const { return temporary_; }

 private:
  OutputFile(std::filesystem::path path, std::filesystem::path temporary, UniqueFd file)
      : path_(std::move(path)), temporary_(std::move(temporary)), file_(std::move(file)) {}

  std::filesystem::path path_;
  std::filesystem::path temporary_;  // empty: `path_` itself is open, or all is done
  UniqueFd file_;
};

}  // namespace pillion::commands
