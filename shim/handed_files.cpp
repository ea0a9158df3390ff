// SPDX-License-Identifier: Apache-2.0
#include "handed_files.h"

#include "bounded_text.h"
#include "owned_fd.h"
#include "system_calls.h"

namespace pillion::shim {
namespace {

struct HandedFile {
  OwnedFd file;
  std::uint32_t cuda_version;  // 0: the shim itself
};

constinit HandedFile files[kHandedMax];
std::size_t used = 0;

}  // namespace

void keep_handed_file(int fd, std::uint32_t cuda_version) {
  struct stat status {};
  if (used == kHandedMax || fd < 0 || !file_status(fd, &status)) return;
  HandedFile& entry = files[used++];
  entry.file.number = fd;
  entry.file.device = status.st_dev;
  entry.file.inode = status.st_ino;
  entry.cuda_version = cuda_version;
}

int handed_file(std::size_t at) {
  return at < used && files[at].file.still_ours() ? files[at].file.number : -1;
}

std::size_t handed_cupti(HandedCupti (&out)[kHandedMax]) {
  std::size_t count = 0;
  for (std::size_t at = 0; at < used; ++at) {
    if (files[at].cuda_version == 0 || handed_file(at) < 0) continue;
    out[count].cuda_version = files[at].cuda_version;
    BoundedText(out[count].name).add(static_cast<std::uint64_t>(files[at].file.number));
    ++count;
  }
  return count;
}

}  // namespace pillion::shim
