// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

// Files that an injector opened in this process: the shim's own and the CUPTI libraries to choose from. They
// have no name that leads to them, so the descriptors are kept, under the numbers they have: one of them is
// part of the name under which the dynamic linker knows this library, and must not become another file's.
namespace pillion::shim {

struct HandedCupti {
  std::uint32_t cuda_version;  // 1000 * major + 10 * minor
  char name[12];               // within /proc/thread-self/fd
};

inline constexpr std::size_t kHandedMax = 5;

// On the thread that starts the shim, before any other thread of ours runs. Out of range: ignored.
void keep_handed_file(int fd, std::uint32_t cuda_version);

// The CUPTI libraries among them that the program has not closed meanwhile; how many. Any thread.
std::size_t handed_cupti(HandedCupti (&out)[kHandedMax]);

// Calls visit(fd) for each that is still open until that says true. Any thread.
template <typename Visit>
bool each_handed_file(Visit visit);
[[nodiscard]] int handed_file(std::size_t at);  // -1: closed, or never there

template <typename Visit>
bool each_handed_file(Visit visit) {
  for (std::size_t at = 0; at < kHandedMax; ++at) {
    const int fd = handed_file(at);
    if (fd >= 0 && visit(fd)) return true;
  }
  return false;
}

}  // namespace pillion::shim
