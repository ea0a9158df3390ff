// SPDX-License-Identifier: Apache-2.0
#include "profile/demangle.h"

#include <demangle.h>

#include <algorithm>
#include <csetjmp>
#include <cstddef>

namespace pillion::profile {
namespace {

constexpr std::size_t kMangledMax = 8u << 10;  // the demangler recurses on its input
constexpr std::size_t kDemangledMax = 16u << 10;

struct Collected {
  std::string text;
  std::jmp_buf full;
};

// The demangler cannot be told to stop, so a full buffer leaves it by longjmp. It keeps its state on the
// stack (libiberty/cp-demangle.c, d_demangle_callback: alloca), so nothing is lost.
void collect(const char* piece, std::size_t length, void* opaque) {
  auto* out = static_cast<Collected*>(opaque);
  out->text.append(piece, std::min(length, kDemangledMax - out->text.size()));
  if (out->text.size() == kDemangledMax) std::longjmp(out->full, 1);
}

// False when it is not a mangled name.
[[gnu::noinline]] bool run(const char* mangled, Collected* out) {
  if (setjmp(out->full) != 0) return true;
  return cplus_demangle_v3_callback(mangled, DMGL_PARAMS | DMGL_ANSI, collect, out) != 0;
}

}  // namespace

std::string demangle(std::string_view mangled) {
  if (!mangled.starts_with("_Z") || mangled.size() > kMangledMax) return std::string(mangled);
  const std::string terminated(mangled);
  Collected out;
  return run(terminated.c_str(), &out) ? std::move(out.text) : terminated;
}

}  // namespace pillion::profile
