// SPDX-License-Identifier: Apache-2.0
#include "process_state.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "own_proc.h"
#include "system_calls.h"

namespace pillion::shim {
namespace {

// Bytes read and NUL-terminated, 0 on failure.
std::size_t read_file(const char* path, char* out, std::size_t size) {
  out[0] = '\0';
  const int fd = ::open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
  if (fd < 0) return 0;
  std::size_t used = 0;
  while (used + 1 < size) {
    const ssize_t got = ::read(fd, out + used, size - 1 - used);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    used += static_cast<std::size_t>(got);
  }
  ::close(fd);
  out[used] = '\0';
  return used;
}

bool digit(char c) { return c >= '0' && c <= '9'; }

std::uint64_t parse_number(const char** at, const char* end) {
  std::uint64_t number = 0;
  while (*at < end && digit(**at)) number = number * 10 + static_cast<std::uint64_t>(*(*at)++ - '0');
  return number;
}

}  // namespace

std::uint64_t parse_start_time(const char* text, std::size_t bytes) {
  const char* end = text + bytes;
  const char* at = end;
  while (at > text && at[-1] != ')') --at;
  if (at == text) return 0;
  // `at` stands behind field 2; field 22 is behind the 20th blank from here.
  for (int blanks = 0; at < end; ++at) {
    if (*at == ' ' && ++blanks == 20) {
      ++at;
      return parse_number(&at, end);
    }
  }
  return 0;
}

bool read_identity(ProcessIdentity* out) {
  char text[1024];
  out->pid = this_pid();
  const std::size_t stat_bytes = read_file("/proc/self/stat", text, sizeof text);
  out->start_time = parse_start_time(text, stat_bytes);
  const std::size_t link_bytes = read_own_proc_link("ns/pid", text, sizeof text);  // "pid:[4026531836]"
  const auto* at = static_cast<const char*>(std::memchr(text, '[', link_bytes));
  if (at == nullptr) return false;
  ++at;
  out->pid_namespace = parse_number(&at, text + link_bytes);
  return out->start_time != 0 && out->pid_namespace != 0;
}

void read_comm(char* out, std::size_t size) {
  // Of the process, not of the thread that asks: /proc/self/comm is the main thread's.
  std::size_t used = read_file("/proc/self/comm", out, size);
  if (used > 0 && out[used - 1] == '\n') out[--used] = '\0';
}

void read_exe(char* out, std::size_t size) { read_own_proc_link("exe", out, size); }

bool list_holds(const char* list, std::uint32_t number) {
  if (list == nullptr) return false;
  const char* end = list + std::strlen(list);
  for (const char* at = list; at < end;) {
    const char* first = at;
    const std::uint64_t one = parse_number(&at, end);
    const bool whole = at > first && at - first <= 10 && (at == end || *at == ',');
    if (whole && one == number) return true;
    while (at < end && *at != ',') ++at;
    if (at < end) ++at;
  }
  return false;
}

}  // namespace pillion::shim
