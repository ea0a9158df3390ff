// SPDX-License-Identifier: Apache-2.0
#include "mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstring>

#include "abi/pillion_abi.h"
#include "bounded_text.h"
#include "handed_files.h"
#include "own_proc.h"
#include "system_calls.h"

namespace pillion::shim {
namespace {

constexpr std::size_t kLineMax = 20'480;  // a path has up to 4,096 bytes, each perhaps written as \ooo
constexpr char kDeleted[] = " (deleted)";

// One line of maps: "start-end perms offset major:minor inode   path" (proc(5)).
struct Mapping {
  std::uint64_t start;
  std::uint64_t end;
  char device_inode[48];  // "fe:01 1234": compared as text, never computed with
  char path[4352];
  bool deleted;
};

// Control thread's.
char line_buffer[kLineMax];
Mapping found;
Mapping probe;

std::uint64_t parse_hex(const char** at) {
  std::uint64_t value = 0;
  for (;; ++*at) {
    const char c = **at;
    if (c >= '0' && c <= '9') {
      value = value << 4 | static_cast<std::uint64_t>(c - '0');
    } else if (c >= 'a' && c <= 'f') {
      value = value << 4 | static_cast<std::uint64_t>(c - 'a' + 10);
    } else {
      return value;
    }
  }
}

const char* skip_field(const char* at) {
  while (*at != '\0' && *at != ' ') ++at;
  while (*at == ' ') ++at;
  return at;
}

// The kernel writes a newline in a path as \012, and nothing else so.
void unescape_path(const char* at, Mapping* out) {
  std::size_t used = 0;
  while (*at != '\0' && used + 1 < sizeof out->path) {
    const bool newline = std::strncmp(at, "\\012", 4) == 0;
    out->path[used++] = newline ? '\n' : *at;
    at += newline ? 4 : 1;
  }
  out->path[used] = '\0';
  const std::size_t mark = sizeof kDeleted - 1;
  out->deleted = used > mark && std::strcmp(out->path + used - mark, kDeleted) == 0;
}

void parse_line(const char* at, Mapping* out) {
  out->start = parse_hex(&at);
  if (*at == '-') ++at;
  out->end = parse_hex(&at);
  at = skip_field(skip_field(skip_field(at)));  // to the device; the end address's blank counts as a field
  std::size_t used = 0;
  for (int blanks = 0; *at != '\0' && used + 1 < sizeof out->device_inode; ++at) {
    if (*at == ' ' && ++blanks == 2) break;
    out->device_inode[used++] = *at;
  }
  out->device_inode[used] = '\0';
  while (*at == ' ') ++at;
  unescape_path(at, out);
}

// Reads line by line, so that no text of any size must be held.
bool find_mapping(std::uint64_t start, Mapping* out) {
  const int fd = open_own_proc("maps");
  if (fd < 0) return false;
  bool hit = false;
  std::size_t used = 0;
  while (!hit) {
    const ssize_t got = ::read(fd, line_buffer + used, sizeof line_buffer - used);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    used += static_cast<std::size_t>(got);
    char* line = line_buffer;
    while (auto* end = static_cast<char*>(std::memchr(line, '\n', used - (line - line_buffer)))) {
      *end = '\0';
      const char* at = line;
      if (parse_hex(&at) == start) {
        parse_line(line, out);
        hit = true;
        break;
      }
      line = end + 1;
    }
    used -= static_cast<std::size_t>(line - line_buffer);
    std::memmove(line_buffer, line, used);
    if (used == sizeof line_buffer) used = 0;  // no line is that long: not a maps file
  }
  ::close(fd);
  return hit;
}

int keep_regular(int fd, std::uint32_t* error) {
  if (fd < 0) {
    *error = static_cast<std::uint32_t>(errno);
    return -1;
  }
  struct stat status {};
  if (file_status(fd, &status) && S_ISREG(status.st_mode)) return fd;
  ::close(fd);
  *error = EINVAL;
  return -1;
}

int open_regular(const char* path, std::uint32_t* error) {
  return keep_regular(above_standard_streams(::open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY)),
                      error);
}

// Whether `fd` is the file of `mapping`. stat and maps disagree about device and inode on an overlay (maps of
// older kernels shows the lower file's), so a page of it is mapped, never touched, and the two maps lines are
// compared.
bool same_file(int fd, const Mapping& mapping) {
  constexpr std::size_t kPage = 4096;
  void* page = ::mmap(nullptr, kPage, PROT_READ, MAP_PRIVATE, fd, 0);
  if (page == MAP_FAILED) return false;
  const bool same = find_mapping(reinterpret_cast<std::uint64_t>(page), &probe) &&
                    std::strcmp(probe.device_inode, mapping.device_inode) == 0;
  ::munmap(page, kPage);
  return same;
}

void add_hex(BoundedText& text, std::uint64_t value) {
  char digits[17];
  std::size_t at = sizeof digits - 1;
  digits[at] = '\0';
  do {
    digits[--at] = "0123456789abcdef"[value & 15];
    value >>= 4;
  } while (value != 0);
  text.add(digits + at);
}

// A file that an injector brought has no name, or one that is gone. What is passed on must not be writable.
int open_handed(const Mapping& mapping) {
  int opened = -1;
  each_handed_file([&](int fd) {
    if (!same_file(fd, mapping)) return false;
    char name[16];
    BoundedText(name).add("fd/").add(static_cast<std::uint64_t>(fd));
    opened = open_own_proc(name);
    return true;
  });
  return opened;
}

int open_map_files(const Mapping& mapping, std::uint32_t* error) {
  char path[80];
  BoundedText text(path);
  text.add("/proc/self/map_files/");
  add_hex(text, mapping.start);
  text.add("-");
  add_hex(text, mapping.end);
  return open_regular(path, error);
}

}  // namespace

MappedFile open_mapped_file(std::uint64_t start) {
  if (!find_mapping(start, &found) || found.path[0] != '/') return {-1, ENOENT, 0};
  std::uint32_t error = 0;
  int fd = -1;
  // A path that is not deleted may end so too; then the open below finds it.
  fd = open_regular(found.path, &error);
  if (fd >= 0 && same_file(fd, found)) return {fd, 0, 0};
  // The main program is reachable without its name.
  std::uint32_t exe_error = 0;
  const int exe = keep_regular(open_own_proc("exe"), &exe_error);
  if (exe >= 0 && same_file(exe, found)) {
    if (fd >= 0) ::close(fd);
    return {exe, 0, 0};
  }
  if (exe >= 0) ::close(exe);
  const int handed = open_handed(found);
  if (handed >= 0) {
    if (fd >= 0) ::close(fd);
    return {handed, 0, 0};
  }
  // Needs CAP_CHECKPOINT_RESTORE, and then leads to the very file, deleted or not.
  std::uint32_t map_error = 0;
  const int very = open_map_files(found, &map_error);
  if (very >= 0) {
    if (fd >= 0) ::close(fd);
    return {very, 0, 0};
  }
  if (fd >= 0) return {fd, 0, PILLION_FILE_OTHER_INODE};
  return {-1, found.deleted ? static_cast<std::uint32_t>(ESTALE) : error, 0};
}

}  // namespace pillion::shim
