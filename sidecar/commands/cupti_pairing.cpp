// SPDX-License-Identifier: Apache-2.0
#include "commands/cupti_pairing.h"

#include <algorithm>
#include <charconv>
#include <optional>

#include "inject/mapped_files.h"

namespace pillion::commands {
namespace {

struct DriverBranch {
  std::uint32_t branch;
  std::uint32_t cuda;
};

// Newest first: the first branch of each CUDA version. Source: CUDA's release notes, table of drivers.
constexpr DriverBranch kBranches[] = {
    {590, 13010}, {580, 13000}, {575, 12090}, {570, 12080}, {565, 12070}, {560, 12060}, {555, 12050},
    {550, 12040}, {545, 12030}, {535, 12020}, {530, 12010}, {525, 12000}, {520, 11080}, {515, 11070},
    {510, 11060}, {495, 11050}, {470, 11040}, {465, 11030}, {460, 11020}, {455, 11010}, {450, 11000}};
constexpr std::uint32_t kUnknownMinor = 990;

std::optional<std::uint32_t> take_number(std::string_view& text) {
  std::uint32_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{}) return std::nullopt;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return number;
}

// "13.0", "13"
std::uint32_t parse_version(std::string_view text) {
  const auto major = take_number(text);
  if (!major || *major == 0 || *major > 99) return 0;
  if (!text.starts_with('.')) return text.empty() ? *major * 1000 + kUnknownMinor : 0;
  text.remove_prefix(1);
  const auto minor = take_number(text);
  return minor && *minor < 99 ? *major * 1000 + *minor * 10 : 0;
}

std::string version_text(std::uint32_t version) {
  const std::string major = std::to_string(version / 1000);
  return version % 1000 == kUnknownMinor ? major : major + "." + std::to_string(version % 1000 / 10);
}

DoctorRow loaded_row(const std::string& library, std::uint32_t driver) {
  const std::uint32_t version = cuda_version_of_cupti_file(library);
  const std::string finding = library + ", loaded by the program";
  if (driver != 0 && version / 1000 > driver / 1000)
    return {
        "CUPTI",
        finding + ", is for CUDA " + version_text(version) + ", the driver serves " + version_text(driver),
        RowState::missing, "a driver that is as new, or an older toolkit in the program"};
  return {"CUPTI", finding, RowState::ok, {}};
}

}  // namespace

std::uint32_t cuda_version_of_driver(std::string_view library) {
  static constexpr std::string_view kPrefix = "libcuda.so.";
  std::string_view name = inject::file_name(library);
  if (!name.starts_with(kPrefix)) return 0;
  name.remove_prefix(kPrefix.size());
  const auto branch = take_number(name);
  if (!branch || !name.starts_with('.')) return 0;  // libcuda.so.1 says nothing
  for (const auto& entry : kBranches) {
    if (*branch >= entry.branch) return entry.cuda;
  }
  return 0;
}

std::uint32_t cuda_version_of_cupti_file(const std::filesystem::path& path) {
  static constexpr std::string_view kPrefix = "libcupti.so.";
  if (const auto version = parse_version(path.parent_path().filename().string()); version != 0)
    return version;
  const std::string name = path.filename().string();
  return name.starts_with(kPrefix) ? parse_version(std::string_view(name).substr(kPrefix.size())) : 0;
}

DoctorRow cupti_row(const inject::TargetProgram& program, const std::vector<CuptiFile>& shipped) {
  const std::uint32_t driver = cuda_version_of_driver(program.cuda_library);
  if (!program.cupti_library.empty()) return loaded_row(program.cupti_library, driver);
  if (shipped.empty())
    return {"CUPTI", "none is loaded, and none lies beside pillion", RowState::degraded,
            "works only if the program's library path has one"};
  // The newest that the driver can serve, as the shim chooses.
  const CuptiFile* best = nullptr;
  for (const auto& file : shipped) {
    const std::uint32_t version = cuda_version_of_cupti_file(file.place);
    const bool fits = driver == 0 || version / 1000 <= driver / 1000;
    if (fits && (best == nullptr || version > cuda_version_of_cupti_file(best->place))) best = &file;
  }
  if (best == nullptr)
    return {"CUPTI",
            "none of those beside pillion is old enough for the driver, which serves CUDA " +
                version_text(driver),
            RowState::missing, "pillion install -cupti-dir with a libcupti of that CUDA version"};
  std::string finding = "to be brought along, " + best->source.string();
  if (driver == 0) finding += " (which CUDA the driver serves is not known from here)";
  return {"CUPTI", finding, RowState::ok, {}};
}

}  // namespace pillion::commands
