// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "commands/output_file.h"

namespace pillion::commands {

// Where a recording goes: a file that appears whole, or stdout ("-"). What stood under the name before stays
// until then.
class ProfileOutput {
 public:
  // Opened before the window: a file that cannot be made must not cost a profile.
  [[nodiscard]] static Result<ProfileOutput> open(const std::string& path);

  // A profile that cannot be written there (the disk is full) is kept in $TMPDIR, /tmp or /dev/shm, whichever
  // takes it first; the error names the file. Once.
  [[nodiscard]] Result<void> write(std::string_view profile);

  // The unfinished file, to be removed by who ends the program at once; empty when there is none.
  [[nodiscard]] std::string temporary() const { return file_ ? file_->temporary().string() : ""; }

 private:
  ProfileOutput(std::string path, std::optional<OutputFile> file)
      : path_(std::move(path)), file_(std::move(file)) {}
  [[nodiscard]] Result<void> write_there(std::string_view profile);

  std::string path_;
  std::optional<OutputFile> file_;  // none: stdout
};

}  // namespace pillion::commands
