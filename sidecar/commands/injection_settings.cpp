// SPDX-License-Identifier: Apache-2.0
#include "commands/injection_settings.h"

#include "commands/cupti_pairing.h"
#include "commands/program_files.h"

namespace pillion::commands {

Result<inject::InjectionSettings> injection_settings(const std::filesystem::path& folder) {
  const auto shim = find_shim(folder);
  if (!shim) return tl::make_unexpected(shim.error());
  inject::InjectionSettings settings;
  settings.shim_path = shim->string();
  const auto cupti = find_cupti({shim->parent_path()});
  if (!cupti) return tl::make_unexpected(cupti.error());
  for (const CuptiFile& file : *cupti) {
    const std::uint32_t version = cuda_version_of_cupti_file(file.place);
    if (version != 0) settings.cupti.push_back({version, file.source.string()});
  }
  return settings;
}

}  // namespace pillion::commands
