// SPDX-License-Identifier: Apache-2.0
#include "cupti/call_log.h"

#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdio>
#include <ctime>

namespace simgpu {
namespace {

int log_fd() {
  static const int fd = [] {
    const std::string path = knob_text("SIMGPU_CALL_LOG");
    return path.empty() ? -1 : open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  }();
  return fd;
}

// One write per line, so that lines of several threads and processes do not mix.
void write_line(const char* function, const char* result) {
  if (log_fd() < 0) return;
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  char line[160];
  const int length =
      std::snprintf(line, sizeof line, "%lld%09ld %ld %s %s\n", static_cast<long long>(now.tv_sec),
                    now.tv_nsec, syscall(SYS_gettid), function, result);
  if (write(log_fd(), line, static_cast<std::size_t>(length)) < 0) return;  // nothing to be done about it
}

}  // namespace

void log_call(const char* function, cupti::Result result) {
  if (log_fd() >= 0) write_line(function, std::to_string(result).c_str());
}

void log_entry(const char* function) { write_line(function, "called"); }

}  // namespace simgpu
