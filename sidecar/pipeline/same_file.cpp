// SPDX-License-Identifier: Apache-2.0
#include "pipeline/same_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <cstdint>
#include <cstdio>
#include <fstream>
#include <string>

namespace pillion::pipeline {
namespace {

// Whether a mapping of the file reads in /proc/self/maps as `mapping` did there: stat and maps disagree on
// overlays.
bool shows_as(int fd, const unwind::Mapping& mapping) {
  constexpr std::size_t kPage = 4096;
  void* page = ::mmap(nullptr, kPage, PROT_READ, MAP_PRIVATE, fd, 0);  // never touched: it may be truncated
  if (page == MAP_FAILED) return false;
  bool same = false;
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    unsigned long start = 0;
    unsigned long inode = 0;
    unsigned major = 0;
    unsigned minor = 0;
    const int read = std::sscanf(line.c_str(), "%lx-%*x %*s %*x %x:%x %lu", &start, &major, &minor, &inode);
    if (read != 4 || start != reinterpret_cast<std::uintptr_t>(page)) continue;
    same = inode == mapping.inode && makedev(major, minor) == mapping.device;
    break;
  }
  ::munmap(page, kPage);
  return same;
}

}  // namespace

Result<UniqueFd> open_same_file(const unwind::Mapping& mapping) {
  const UniqueFd name(::open(mapping.path.c_str(), O_PATH | O_CLOEXEC));
  struct stat status {};
  if (!name.valid() || ::fstat(name.get(), &status) != 0) return fail_errno("open", mapping.path);
  if (!S_ISREG(status.st_mode)) return fail("open", mapping.path, "not a regular file");
  UniqueFd file(::open(("/proc/self/fd/" + std::to_string(name.get())).c_str(), O_RDONLY | O_CLOEXEC));
  if (!file.valid()) return fail_errno("open", mapping.path);
  if (!shows_as(file.get(), mapping)) return fail("open", mapping.path, "another file than the process had");
  return file;
}

}  // namespace pillion::pipeline
