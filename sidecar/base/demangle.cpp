// SPDX-License-Identifier: Apache-2.0
#include "base/demangle.h"

#include <libiberty/demangle.h>

#include <csetjmp>

namespace pillion {
namespace {

// libiberty's own limit on components lets names of up to half of 2,048 bytes through; kernels of CUDA
// libraries have longer ones, so up to this length it is asked to go on. Its printer limits its recursion by
// itself.
constexpr std::size_t kLimitedLength = 1024;
constexpr std::string_view kCut = "...";

struct Output {
  char* text;
  std::size_t used = 0;
  std::jmp_buf full;
};

// A name of 230 bytes can expand to 142 MB. The printer has no way to stop, but it owns nothing on the heap,
// so a jump out of it loses nothing.
void append(const char* piece, std::size_t length, void* opaque) {
  auto* output = static_cast<Output*>(opaque);
  const std::size_t left = kDemangledMax - output->used;
  const std::size_t taken = length < left ? length : left;
  if (taken != 0) __builtin_memcpy(output->text + output->used, piece, taken);  // an empty piece may be null
  output->used += taken;
  if (taken < length) std::longjmp(output->full, 1);
}

enum class Outcome { failed, complete, cut };

// No object with a destructor may live here: the jump lands in this function.
Outcome run(const char* mangled, bool rust, int options, Output* output) {
  if (setjmp(output->full) != 0) return Outcome::cut;
  const int done = rust ? rust_demangle_callback(mangled, options, append, output)
                        : cplus_demangle_v3_callback(mangled, options, append, output);
  return done != 0 ? Outcome::complete : Outcome::failed;
}

}  // namespace

std::string demangle(std::string_view mangled) {
  const bool itanium =
      mangled.starts_with("_Z") || mangled.starts_with("__Z") || mangled.starts_with("_GLOBAL_");
  if ((!itanium && !mangled.starts_with("_R")) || mangled.size() > kMangledMax) return std::string(mangled);
  if (mangled.find('\0') != std::string_view::npos) return std::string(mangled);
  const std::string name(mangled);
  int options = DMGL_PARAMS | DMGL_ANSI;
  if (name.size() > kLimitedLength) options |= DMGL_NO_RECURSE_LIMIT;
  char buffer[kDemangledMax];
  Output output{buffer, 0, {}};
  Outcome outcome = run(name.c_str(), true, DMGL_PARAMS, &output);
  if (outcome == Outcome::failed) {
    output.used = 0;
    outcome = run(name.c_str(), false, options, &output);
  }
  if (outcome == Outcome::failed || output.used == 0) return name;
  std::string text(buffer, output.used);
  if (outcome == Outcome::cut) text += kCut;
  return text;
}

}  // namespace pillion
