// SPDX-License-Identifier: Apache-2.0
#include "commands/program_files.h"

#include <algorithm>
#include <set>

namespace pillion::commands {
namespace fs = std::filesystem;

namespace {

Result<void> add_cupti(const fs::path& folder, std::set<fs::path>& found) {
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    if (!it->path().filename().string().starts_with("libcupti.so")) continue;
    const auto real = fs::canonical(it->path(), error);
    if (error) return tl::make_unexpected(Error{"resolve", it->path(), error.value(), {}});
    if (fs::is_regular_file(real, error)) found.insert(real);
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
  for (const auto& candidate : {folder / kShimName, folder / "lib" / kShimName}) {
    std::error_code error;
    if (fs::is_regular_file(candidate, error)) return candidate;
  }
  return fail("find", kShimName, "neither in " + folder.string() + " nor in its lib/");
}

Result<std::vector<fs::path>> find_cupti(const std::vector<fs::path>& folders) {
  std::set<fs::path> found;
  for (const auto& folder : folders) {
    if (auto added = add_cupti(folder, found); !added) return tl::make_unexpected(added.error());
    std::error_code error;
    if (!fs::is_directory(folder / "lib", error)) continue;
    if (auto added = add_cupti(folder / "lib", found); !added) return tl::make_unexpected(added.error());
  }
  return std::vector<fs::path>(found.begin(), found.end());
}

}  // namespace pillion::commands
