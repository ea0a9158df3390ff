// SPDX-License-Identifier: Apache-2.0
#include "commands/profile_output.h"

#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <vector>

#include "base/log.h"

namespace pillion::commands {
namespace fs = std::filesystem;

namespace {

constexpr mode_t kProfileMode = 0644;
constexpr mode_t kKeptMode = 0600;

// Under another name, where there is room.
Result<fs::path> keep_elsewhere(const fs::path& wanted, std::string_view profile) {
  std::error_code error;
  std::vector<fs::path> folders{fs::temp_directory_path(error), "/tmp", "/dev/shm"};
  const std::string name = "pillion-" + std::to_string(::getpid()) + "-" +
                           (wanted == "-" ? std::string("profile") : wanted.filename().string());
  for (const auto& folder : folders) {
    if (folder.empty()) continue;
    auto file = OutputFile::create(folder / name, kKeptMode);
    if (file && file->write(profile) && file->commit()) return folder / name;
  }
  return fail("keep the profile", "", "neither $TMPDIR nor /tmp nor /dev/shm takes it");
}

}  // namespace

Result<ProfileOutput> ProfileOutput::open(const std::string& path) {
  if (path == "-") return ProfileOutput(path, std::nullopt);
  auto file = OutputFile::create(path, kProfileMode);
  if (!file) return tl::make_unexpected(file.error());
  return ProfileOutput(path, std::move(*file));
}

Result<void> ProfileOutput::write_there(std::string_view profile) {
  if (!file_) {
    const bool written =
        std::fwrite(profile.data(), 1, profile.size(), stdout) == profile.size() && std::fflush(stdout) == 0;
    return written ? Result<void>() : fail_errno("write", "stdout");
  }
  if (auto written = file_->write(profile); !written) return written;
  return file_->commit();
}

Result<void> ProfileOutput::write(std::string_view profile) {
  auto written = write_there(profile);
  if (written) {
    if (file_) log(LogLevel::info, "wrote " + path_ + " (" + std::to_string(profile.size()) + " bytes)");
    return {};
  }
  file_.reset();  // gives the room back that the piece of it takes
  auto error = written.error();
  const auto kept = keep_elsewhere(path_, profile);
  error.detail = kept ? "the profile is in " + kept->string() : kept.error().message();
  return tl::make_unexpected(std::move(error));
}

}  // namespace pillion::commands
