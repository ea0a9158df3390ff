// SPDX-License-Identifier: Apache-2.0
#include "inject/target_process.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>

#include "inject/proc_text.h"

namespace pillion::inject {

Result<TargetProcess> TargetProcess::open(const Examination& found) {
  TargetProcess target;
  target.pid_ = found.pid;
  target.live_thread_ = found.live_thread;
  target.pidfd_.reset(static_cast<int>(::syscall(SYS_pidfd_open, found.pid, 0)));
  if (!target.pidfd_.valid()) return fail_errno("open process", std::to_string(found.pid));
  if (process_start_time("/proc", found.pid) != found.start_time) {
    return fail("open process", std::to_string(found.pid), "the process that was examined has ended");
  }
  return target;
}

bool TargetProcess::alive(int milliseconds) const {
  pollfd ended{pidfd_.get(), POLLIN, 0};
  return ::poll(&ended, 1, milliseconds) == 0;
}

Result<UniqueFd> TargetProcess::descriptor(std::int64_t number) const {
  UniqueFd copy(static_cast<int>(::syscall(SYS_pidfd_getfd, pidfd_.get(), number, 0)));
  if (copy.valid()) return copy;
  const int first = errno;
  copy.reset(::open((folder() + "/fd/" + std::to_string(number)).c_str(), O_RDWR | O_CLOEXEC));
  if (copy.valid()) return copy;
  errno = first;
  return fail_errno("take a file from process", std::to_string(pid_));
}

std::string TargetProcess::maps() const { return read_proc_text(folder() + "/maps"); }

// A leader that has ended has neither maps nor files; a thread's folder is found under its own number, too.
std::string TargetProcess::folder() const { return "/proc/" + std::to_string(live_thread_); }

Result<void> write_at(int file, const void* bytes, std::size_t size, std::uint64_t offset) {
  const auto* at = static_cast<const char*>(bytes);
  while (size > 0) {
    const ssize_t done = ::pwrite(file, at, size, static_cast<off_t>(offset));
    if (done < 0 && errno == EINTR) continue;
    if (done <= 0) return fail_errno("write", "the target's file");
    at += done;
    offset += static_cast<std::uint64_t>(done);
    size -= static_cast<std::size_t>(done);
  }
  return {};
}

}  // namespace pillion::inject
