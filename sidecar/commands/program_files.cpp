// SPDX-License-Identifier: Apache-2.0
#include "commands/program_files.h"

#include <algorithm>
#include <regex>

namespace pillion::commands {
namespace fs = std::filesystem;

namespace {

// libcupti.so.13, libcupti.so.11.8: at most two digits a part, or it is a file's own name.
bool is_soname(const std::string& name) {
  static const std::regex pattern("libcupti\\.so\\.[0-9]{1,2}(\\.[0-9]{1,2})?");
  return std::regex_match(name, pattern);
}

// `place`: where the folder's files go, below the shim's folder.
Result<void> add_cupti(const fs::path& folder, const fs::path& place, std::vector<CuptiFile>& found) {
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    const auto name = it->path().filename();
    if (!is_soname(name)) continue;
    const auto real = fs::canonical(it->path(), error);
    if (error) return tl::make_unexpected(Error{"resolve", it->path(), error.value(), {}});
    if (fs::is_regular_file(real, error)) found.push_back({real, place / name});
  }
  if (error) return tl::make_unexpected(Error{"read folder", folder, error.value(), {}});
  return {};
}

Result<void> add_versions(const fs::path& folder, std::vector<CuptiFile>& found) {
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    if (!it->is_directory(error)) continue;
    const auto added = add_cupti(it->path(), fs::path("cupti") / it->path().filename(), found);
    if (!added) return added;
  }
  if (error) return tl::make_unexpected(Error{"read folder", folder, error.value(), {}});
  return {};
}

}  // namespace

fs::path program_folder() {
  std::error_code error;
  return fs::read_symlink("/proc/self/exe", error).parent_path();
}

Result<fs::path> find_shim(const fs::path& folder) {
  if (folder.empty()) {
    return fail("find", kShimName,
                "pillion cannot tell where it lies: /proc/self/exe cannot be read, is /proc there?");
  }
  for (const auto& candidate : {folder / kShimName, folder / "lib" / kShimName}) {
    std::error_code error;
    if (fs::is_regular_file(candidate, error)) return candidate;
  }
  return fail("find", kShimName, "neither in " + folder.string() + " nor in its lib/");
}

Result<std::vector<CuptiFile>> find_cupti(const std::vector<fs::path>& folders) {
  std::vector<CuptiFile> found;
  for (const auto& folder : folders) {
    auto added = add_cupti(folder, {}, found);
    std::error_code error;
    if (added && fs::is_directory(folder / "lib", error)) added = add_cupti(folder / "lib", {}, found);
    if (added && fs::is_directory(folder / "cupti", error)) added = add_versions(folder / "cupti", found);
    if (!added) return tl::make_unexpected(added.error());
  }
  std::sort(found.begin(), found.end());
  return found;
}

}  // namespace pillion::commands
