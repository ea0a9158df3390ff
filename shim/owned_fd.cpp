// SPDX-License-Identifier: Apache-2.0
#include "owned_fd.h"

#include <fcntl.h>
#include <unistd.h>

#include "system_calls.h"

namespace pillion::shim {
namespace {

constexpr int kLowestNumber = 200;

}  // namespace

OwnedFd OwnedFd::adopt(int fd) {
  OwnedFd owned;
  if (fd < 0) return owned;
  owned.number = ::fcntl(fd, F_DUPFD_CLOEXEC, kLowestNumber);
  if (owned.number >= 0) {
    ::close(fd);
  } else {
    owned.number = fd;
  }
  struct stat now {};
  if (file_status(owned.number, &now)) {
    owned.device = now.st_dev;
    owned.inode = now.st_ino;
  }
  return owned;
}

bool OwnedFd::still_ours() const {
  struct stat now {};
  return number >= 0 && file_status(number, &now) && now.st_dev == device && now.st_ino == inode;
}

void OwnedFd::close() {
  if (still_ours()) ::close(number);
  number = -1;
}

}  // namespace pillion::shim
