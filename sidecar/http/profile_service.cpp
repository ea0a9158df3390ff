// SPDX-License-Identifier: Apache-2.0
#include "http/profile_service.h"

#include <algorithm>
#include <array>

namespace pillion::http {
namespace {

constexpr std::array kTypes = {ProfileType::gpu,    ProfileType::idle, ProfileType::sync,  ProfileType::cpu,
                               ProfileType::offcpu, ProfileType::heap, ProfileType::allocs};
// One row for each type that is taken, with the kinds that it cannot be without.
struct Taken {
  ProfileType type;
  std::uint32_t kinds;
};
constexpr std::array kTaken = {Taken{ProfileType::gpu, 0}, Taken{ProfileType::idle, PILLION_KIND_KERNEL},
                               Taken{ProfileType::sync, PILLION_KIND_SYNC}};
constexpr std::array kFormats = {ProfileFormat::pprof, ProfileFormat::json, ProfileFormat::folded};

}  // namespace

std::span<const ProfileType> profile_types() { return kTypes; }

const char* to_string(ProfileType type) {
  switch (type) {
    case ProfileType::gpu:
      return "gpu";
    case ProfileType::idle:
      return "idle";
    case ProfileType::sync:
      return "sync";
    case ProfileType::cpu:
      return "cpu";
    case ProfileType::offcpu:
      return "offcpu";
    case ProfileType::heap:
      return "heap";
    case ProfileType::allocs:
      return "allocs";
  }
  return "?";
}

const char* to_string(ProfileFormat format) {
  switch (format) {
    case ProfileFormat::pprof:
      return "pprof";
    case ProfileFormat::json:
      return "json";
    case ProfileFormat::folded:
      return "folded";
  }
  return "?";
}

std::optional<ProfileType> parse_profile_type(const std::string& text) {
  for (const auto type : kTypes) {
    if (text == to_string(type)) return type;
  }
  return std::nullopt;
}

bool is_taken(ProfileType type) {
  return std::any_of(kTaken.begin(), kTaken.end(), [type](const Taken& row) { return row.type == type; });
}

std::string taken_types() {
  std::string text;
  for (const Taken& row : kTaken) text += (text.empty() ? "" : ", ") + std::string(to_string(row.type));
  return text;
}

std::string lacking_kinds(ProfileType type, std::uint32_t kinds) {
  for (const Taken& row : kTaken) {
    if (row.type != type || (row.kinds & ~kinds) == 0) continue;
    return "needs the kind " + kinds_text(row.kinds & ~kinds) + ", which kinds " + kinds_text(kinds) +
           " leaves out";
  }
  return {};
}

std::optional<ProfileFormat> parse_profile_format(const std::string& text) {
  for (const auto format : kFormats) {
    if (text == to_string(format)) return format;
  }
  return std::nullopt;
}

const char* content_type(ProfileFormat format) {
  switch (format) {
    case ProfileFormat::pprof:
      return "application/octet-stream";
    case ProfileFormat::json:
      return "application/json";
    case ProfileFormat::folded:
      return "text/plain; charset=utf-8";
  }
  return "application/octet-stream";
}

const char* file_suffix(ProfileFormat format) {
  switch (format) {
    case ProfileFormat::pprof:
      return ".pb.gz";
    case ProfileFormat::json:
      return ".json";
    case ProfileFormat::folded:
      return ".folded";
  }
  return "";
}

}  // namespace pillion::http
