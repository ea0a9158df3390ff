// SPDX-License-Identifier: Apache-2.0
#include "profile/demangle.h"

#include <demangle.h>

#include <algorithm>
#include <cstddef>

namespace pillion::profile {
namespace {

constexpr std::size_t kMangledMax = 8u << 10;  // the demangler recurses on its input
constexpr std::size_t kDemangledMax = 16u << 10;

void collect(const char* piece, std::size_t length, void* opaque) {
  auto& out = *static_cast<std::string*>(opaque);
  if (out.size() < kDemangledMax) out.append(piece, std::min(length, kDemangledMax - out.size()));
}

}  // namespace

std::string demangle(std::string_view mangled) {
  if (!mangled.starts_with("_Z") || mangled.size() > kMangledMax) return std::string(mangled);
  const std::string terminated(mangled);
  std::string out;
  if (cplus_demangle_v3_callback(terminated.c_str(), DMGL_PARAMS | DMGL_ANSI, collect, &out) == 0)
    return terminated;
  return out;
}

}  // namespace pillion::profile
