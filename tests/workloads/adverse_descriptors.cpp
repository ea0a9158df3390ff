// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <map>

#include "adverse.h"

// Descriptors closed under everybody's feet, and their numbers used again.
namespace adverse {
namespace {

std::map<int, ino_t> reused;

bool close_all(const std::string&) { return ::syscall(SYS_close_range, 3u, ~0u, 0u) == 0; }

// Fills the numbers 3 to 399 with empty files of its own, in which nobody else may write.
bool reuse_fds(const std::string& folder) {
  if (!close_all("")) return false;
  for (;;) {
    std::string path = folder + "/reused-XXXXXX";
    const int fd = ::mkostemp(path.data(), O_CLOEXEC);
    if (fd < 0) return false;
    ::unlink(path.c_str());
    struct stat status {};
    if (::fstat(fd, &status) != 0) return false;
    reused[fd] = status.st_ino;
    if (fd >= 399) return true;
  }
}

constexpr Action kActions[] = {{"close_all", close_all}, {"reuse_fds", reuse_fds}};

}  // namespace

std::span<const Action> descriptor_actions() { return kActions; }

bool reused_descriptors_intact() {
  for (const auto& [fd, inode] : reused) {
    struct stat status {};
    if (::fstat(fd, &status) != 0 || status.st_ino != inode || status.st_size != 0) return false;
    if (::lseek(fd, 0, SEEK_CUR) != 0) return false;
  }
  return true;
}

}  // namespace adverse
