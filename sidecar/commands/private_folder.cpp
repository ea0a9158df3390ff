// SPDX-License-Identifier: Apache-2.0
#include "commands/private_folder.h"

#include <cstdlib>

namespace pillion::commands {
namespace fs = std::filesystem;

Result<PrivateFolder> PrivateFolder::create() {
  std::error_code error;
  auto parent = fs::temp_directory_path(error);
  if (error) parent = "/tmp";
  std::string name = (parent / "pillion-XXXXXX").string();
  if (::mkdtemp(name.data()) == nullptr) return fail_errno("make a folder in", parent);
  return PrivateFolder(name);
}

PrivateFolder::~PrivateFolder() {
  std::error_code ignored;
  if (!path_.empty()) fs::remove_all(path_, ignored);
}

}  // namespace pillion::commands
