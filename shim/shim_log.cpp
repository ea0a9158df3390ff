// SPDX-License-Identifier: Apache-2.0
#include "shim_log.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <atomic>

#include "bounded_text.h"
#include "owned_fd.h"
#include "system_calls.h"

namespace pillion::shim {
namespace {

constexpr std::uint64_t kBytesMax = 1u << 20;

OwnedFd log_file;                      // set before the first thread of ours starts
std::atomic<bool> log_open{false};     // release-stored after log_file
std::atomic<std::uint64_t> log_bytes;  // written so far

bool size_limited() {
  rlimit limit{};
  return ::getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur != RLIM_INFINITY;
}

void write_line(BoundedText& line, const char* whole) {
  line.add("\n");
  if (log_bytes.fetch_add(line.length(), std::memory_order_relaxed) + line.length() > kBytesMax) return;
  if (size_limited() || !log_file.still_ours()) return;
  [[maybe_unused]] const ssize_t written = ::write(log_file.number, whole, line.length());
}

void start_line(BoundedText& line, const char* what, const char* detail) {
  const std::uint64_t now = monotonic_ns();
  line.add(now / 1'000'000u).add(" ms pid ").add(this_pid()).add(" ").add(what);
  if (*detail != '\0') line.add(" ").add(detail);
}

}  // namespace

void open_log(const char* path) {
  if (path == nullptr || *path == '\0' || size_limited()) return;
  // O_NONBLOCK: a FIFO without a reader must not hold up cuInit.
  const int fd = ::open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOCTTY | O_NONBLOCK, 0644);
  if (fd < 0) return;
  struct stat status {};
  if (!file_status(fd, &status) || !S_ISREG(status.st_mode)) {
    ::close(fd);
    return;
  }
  log_file = OwnedFd::adopt(fd);
  log_open.store(true, std::memory_order_release);
}

void log_line(const char* what, const char* detail) {
  if (!log_open.load(std::memory_order_acquire)) return;
  char text[512];
  BoundedText line(text);
  start_line(line, what, detail);
  write_line(line, text);
}

void log_line(const char* what, const char* detail, std::uint64_t number) {
  if (!log_open.load(std::memory_order_acquire)) return;
  char text[512];
  BoundedText line(text);
  start_line(line, what, detail);
  line.add(" ").add(number);
  write_line(line, text);
}

void close_log_in_child() {
  if (log_open.exchange(false)) log_file.close();
}

}  // namespace pillion::shim
