// SPDX-License-Identifier: Apache-2.0
#include "commands/injection_settings.h"

#include <charconv>
#include <string_view>

#include "commands/program_files.h"

namespace pillion::commands {
namespace {

constexpr std::uint32_t kUnknownMinor = 99;  // as the shim takes it: one that fits

// "13.0" or "13" as 1000 * major + 10 * minor; 0 when it is none.
std::uint32_t version_of(std::string_view text) {
  std::uint32_t major = 0;
  std::uint32_t minor = kUnknownMinor;
  const char* end = text.data() + text.size();
  const auto first = std::from_chars(text.data(), end, major);
  if (first.ec != std::errc{} || major > 99) return 0;
  if (first.ptr != end && *first.ptr == '.') {
    const auto second = std::from_chars(first.ptr + 1, end, minor);
    if (second.ec != std::errc{} || minor > 99) return 0;
  }
  return 1000 * major + 10 * minor;
}

// By the folder cupti/VERSION/, or by the name that programs ask for: libcupti.so.13.
std::uint32_t version_of_place(const std::filesystem::path& place) {
  if (place.has_parent_path()) return version_of(place.parent_path().filename().string());
  const std::string name = place.filename().string();
  constexpr std::string_view kPrefix = "libcupti.so.";
  return name.starts_with(kPrefix) ? version_of(std::string_view(name).substr(kPrefix.size())) : 0;
}

}  // namespace

Result<inject::InjectionSettings> injection_settings(const std::filesystem::path& folder) {
  const auto shim = find_shim(folder);
  if (!shim) return tl::make_unexpected(shim.error());
  inject::InjectionSettings settings;
  settings.shim_path = shim->string();
  const auto cupti = find_cupti({shim->parent_path()});
  if (!cupti) return tl::make_unexpected(cupti.error());
  for (const CuptiFile& file : *cupti) {
    const std::uint32_t version = version_of_place(file.place);
    if (version != 0) settings.cupti.push_back({version, file.source.string()});
  }
  return settings;
}

}  // namespace pillion::commands
