// SPDX-License-Identifier: Apache-2.0
#include <sys/stat.h>

#include <cstdio>
#include <map>

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

// Two files of one name would overwrite each other: CUPTI versions must differ in their file names.
Result<void> check_names(const std::vector<fs::path>& files) {
  std::map<std::string, fs::path> names;
  for (const auto& file : files) {
    const auto [known, added] = names.emplace(file.filename().string(), file);
    if (!added) {
      return fail("install", file,
                  "has the same name as " + known->second.string() + "; give them different names");
    }
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
  if (auto checked = check_names(*cupti); !checked) return tl::make_unexpected(checked.error());
  if (cupti->empty()) {
    log(LogLevel::warning, "no libcupti.so found to install (-cupti-dir): the workload must bring its own");
  }
  // The shim comes last: who sees it sees its CUPTI, too.
  for (const auto& file : *cupti) {
    if (auto copied = copy_file(file, *target / file.filename(), kCuptiMode); !copied) {
      return tl::make_unexpected(copied.error());
    }
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
