// SPDX-License-Identifier: Apache-2.0
#include "proc_maps.h"

#include <sys/syscall.h>
#include <unistd.h>
#include <cerrno>
#include <cstring>

#include "own_proc.h"

namespace pillion::shim {
namespace {

long read_retrying(int fd, char* to, std::size_t bytes) {
  long got = 0;
  do {
    got = syscall(SYS_read, fd, to, bytes);
  } while (got < 0 && errno == EINTR);
  return got;
}

// include/uapi/linux/fs.h of Linux 6.11; older systems' headers lack it.
struct ProcmapQuery {
  std::uint64_t size;
  std::uint64_t query_flags;
  std::uint64_t query_addr;
  std::uint64_t vma_start;
  std::uint64_t vma_end;
  std::uint64_t vma_flags;
  std::uint64_t vma_page_size;
  std::uint64_t vma_offset;
  std::uint64_t inode;
  std::uint32_t dev_major;
  std::uint32_t dev_minor;
  std::uint32_t vma_name_size;
  std::uint32_t build_id_size;
  std::uint64_t vma_name_addr;
  std::uint64_t build_id_addr;
};
static_assert(sizeof(ProcmapQuery) == 104);
constexpr unsigned long kProcmapQuery = 0xc0686611;  // _IOWR('f', 17, struct procmap_query)
constexpr std::uint64_t kVmaReadable = 1;
constexpr std::uint64_t kVmaExecutable = 4;

bool query_mapping(std::uint64_t address, ProcMapping* out) {
  const int fd = open_own_proc("maps");
  if (fd < 0) return false;
  ProcmapQuery query{};
  query.size = sizeof(query);
  query.query_addr = address;
  const long failed = syscall(SYS_ioctl, fd, kProcmapQuery, &query);
  syscall(SYS_close, fd);
  if (failed != 0) return false;
  out->start = query.vma_start;
  out->end = query.vma_end;
  out->readable = (query.vma_flags & kVmaReadable) != 0;
  out->executable = (query.vma_flags & kVmaExecutable) != 0;
  out->path[0] = '\0';
  return true;
}

const char* parse_hex(const char* at, const char* end, std::uint64_t* value) {
  *value = 0;
  for (; at < end; ++at) {
    unsigned digit = 0;
    if (*at >= '0' && *at <= '9') {
      digit = static_cast<unsigned>(*at - '0');
    } else if (*at >= 'a' && *at <= 'f') {
      digit = static_cast<unsigned>(*at - 'a' + 10);
    } else {
      break;
    }
    *value = *value << 4 | digit;
  }
  return at;
}

// start-end perms offset dev inode   path
bool parse_line(const char* at, const char* end, ProcMapping* out) {
  at = parse_hex(at, end, &out->start);
  if (at == end || *at++ != '-') return false;
  at = parse_hex(at, end, &out->end);
  if (end - at < 5) return false;
  out->readable = at[1] == 'r';
  out->executable = at[3] == 'x';
  ++at;
  for (int field = 0; field < 4; ++field) {  // permissions, offset, device, inode
    while (at < end && *at != ' ') ++at;
    while (at < end && *at == ' ') ++at;
  }
  std::size_t length = static_cast<std::size_t>(end - at);
  if (length > ProcMapping::kPathMax - 1) length = ProcMapping::kPathMax - 1;
  std::memcpy(out->path, at, length);
  out->path[length] = '\0';
  return true;
}

}  // namespace

bool ProcMapping::is_main_stack() const { return std::strcmp(path, "[stack]") == 0; }

bool ProcMapping::names_nvidia_uvm() const {
  constexpr char kDevice[] = "/dev/nvidia-uvm";
  const char* at = path;
  if (std::strncmp(at, "/memfd:", 7) == 0) at += 7;
  if (std::strncmp(at, kDevice, sizeof(kDevice) - 1) != 0) return false;
  const char after = at[sizeof(kDevice) - 1];
  return after == '\0' || after == ' ';  // not /dev/nvidia-uvm-tools
}

ProcMapsReader::ProcMapsReader() : fd_(open_own_proc("maps")) {}

ProcMapsReader::~ProcMapsReader() {
  if (fd_ >= 0) syscall(SYS_close, fd_);
}

bool ProcMapsReader::fill() {
  if (fd_ < 0) return false;
  std::memmove(buffer_, buffer_ + begin_, end_ - begin_);
  end_ -= begin_;
  begin_ = 0;
  const long got = read_retrying(fd_, buffer_ + end_, sizeof(buffer_) - end_);
  if (got <= 0) return false;
  end_ += static_cast<std::size_t>(got);
  return true;
}

bool ProcMapsReader::next(ProcMapping* out) {
  for (;;) {
    const char* line = buffer_ + begin_;
    const char* stop = static_cast<const char*>(std::memchr(line, '\n', end_ - begin_));
    if (stop != nullptr) {
      begin_ = static_cast<std::size_t>(stop - buffer_) + 1;
      if (parse_line(line, stop, out)) return true;
      continue;
    }
    if (begin_ == 0 && end_ == sizeof(buffer_)) end_ = 0;  // no such line exists; give it up rather than loop
    if (!fill()) return false;
  }
}

bool find_mapping(std::uint64_t address, ProcMapping* out) {
  if (query_mapping(address, out)) return true;
  ProcMapsReader maps;
  while (maps.next(out)) {
    if (address < out->start) return false;
    if (address < out->end) return true;
  }
  return false;
}

}  // namespace pillion::shim
