// SPDX-License-Identifier: Apache-2.0
#include "own_proc.h"

#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "bounded_text.h"

namespace pillion::shim {
namespace {

constexpr const char* kFolders[] = {"/proc/thread-self/", "/proc/self/"};

struct ProcPath {
  char text[64];
  ProcPath(const char* folder, const char* name) { BoundedText(text).add(folder).add(name); }
};

}  // namespace

int open_own_proc(const char* name) {
  long fd = -1;
  for (const char* folder : kFolders) {
    const ProcPath path(folder, name);
    fd = ::syscall(SYS_openat, AT_FDCWD, path.text, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK, 0);
    if (fd >= 0) break;
  }
  return above_standard_streams(static_cast<int>(fd));
}

int above_standard_streams(int fd) {
  if (fd < 0 || fd > STDERR_FILENO) return fd;
  const int moved = ::fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
  if (moved < 0) return fd;
  ::close(fd);
  return moved;
}

std::size_t read_own_proc_link(const char* name, char* out, std::size_t size) {
  ssize_t got = -1;
  for (const char* folder : kFolders) {
    got = ::readlink(ProcPath(folder, name).text, out, size - 1);
    if (got >= 0) break;
  }
  const std::size_t used = got < 0 ? 0 : static_cast<std::size_t>(got);
  out[used] = '\0';
  return used;
}

bool change_mode(int fd, unsigned mode) {
  char name[24];
  BoundedText(name).add("fd/").add(static_cast<std::uint64_t>(fd));
  for (const char* folder : kFolders) {
    if (::syscall(SYS_fchmodat, AT_FDCWD, ProcPath(folder, name).text, mode) == 0) return true;
  }
  return false;
}

}  // namespace pillion::shim
