// SPDX-License-Identifier: Apache-2.0
#include <sys/stat.h>

#include <cstdio>

#include "commands/commands.h"
#include "commands/copy_file.h"
#include "commands/program_files.h"

namespace pillion::commands {
namespace fs = std::filesystem;

namespace {

constexpr mode_t kShimMode = 0755;
constexpr mode_t kCuptiMode = 0644;

Result<fs::path> checked_target(const std::string& folder) {
  std::error_code error;
  const auto target = fs::canonical(folder, error);
  if (error)
    return tl::make_unexpected(Error{"install into", folder, error.value(), "the folder must exist"});
  if (!fs::is_directory(target, error)) return fail("install into", folder, "not a folder");
  return target;
}

// Two files for one place would overwrite each other; the same file twice does no harm.
Result<void> check_places(const std::vector<CuptiFile>& files) {
  for (std::size_t at = 1; at < files.size(); ++at) {
    const auto& before = files[at - 1];
    if (files[at].place == before.place && files[at].source != before.source) {
      return fail("install", files[at].source,
                  "would take the place of " + before.source.string() +
                      "; put each version into a folder cupti/VERSION of what -cupti-dir names");
    }
  }
  return {};
}

Result<void> copy_cupti(const CuptiFile& file, const fs::path& target) {
  const auto copy = target / file.place;
  std::error_code error;
  fs::create_directories(copy.parent_path(), error);
  if (error) return tl::make_unexpected(Error{"create folder", copy.parent_path(), error.value(), {}});
  if (auto copied = copy_file(file.source, copy, kCuptiMode); !copied) {
    return tl::make_unexpected(copied.error());
  }
  return {};
}

Result<fs::path> copy_all(const Options& options, const fs::path& from) {
  const auto target = checked_target(options.install_dir);
  if (!target) return target;
  const auto shim = find_shim(from);
  if (!shim) return shim;
  std::vector<fs::path> folders(options.cupti_dirs.begin(), options.cupti_dirs.end());
  folders.insert(folders.begin(), from);
  const auto cupti = find_cupti(folders);
  if (!cupti) return tl::make_unexpected(cupti.error());
  if (auto checked = check_places(*cupti); !checked) return tl::make_unexpected(checked.error());
  if (cupti->empty()) {
    log(LogLevel::warning, "no libcupti.so found to install (-cupti-dir): the workload must bring its own");
  }
  // The shim comes last: who sees it sees its CUPTI, too.
  for (const auto& file : *cupti) {
    if (auto copied = copy_cupti(file, *target); !copied) return tl::make_unexpected(copied.error());
  }
  const auto installed = *target / kShimName;
  if (auto copied = copy_file(*shim, installed, kShimMode); !copied)
    return tl::make_unexpected(copied.error());
  return installed;
}

}  // namespace

int install(const Options& options, const fs::path& from) {
  const auto installed = copy_all(options, from);
  if (!installed) {
    log(LogLevel::error, installed.error().message());
    return kInternal;
  }
  std::printf("CUDA_INJECTION64_PATH=%s\n", installed->c_str());
  return std::fflush(stdout) == 0 ? kDone : kInternal;
}

}  // namespace pillion::commands
