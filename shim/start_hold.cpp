// SPDX-License-Identifier: Apache-2.0
#include "start_hold.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>

#include "bounded_text.h"
#include "shim_log.h"
#include "system_calls.h"

namespace pillion::shim {
namespace {

constexpr std::uint64_t kLongestNs = 10'000'000'000;
constexpr std::uint64_t kLookNs = 100'000'000;  // between looks whether the recorder is still there

std::atomic<std::uint32_t> held{0};  // futex word
char recorder_file[512];             // the waiting thread's

// A lock that we can take is nobody's: the kernel gave it back when the recorder ended or closed the file.
bool recorder_waits() {
  const int fd = ::open(recorder_file, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NOFOLLOW | O_NONBLOCK);
  if (fd < 0) return false;
  const bool locked = ::flock(fd, LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK;
  ::close(fd);
  return locked;
}

}  // namespace

void hold_program(const char* recorder) {
  if (recorder == nullptr || *recorder == '\0') return;
  BoundedText(recorder_file).add(recorder);
  if (!recorder_waits()) return;
  held.store(1, std::memory_order_release);
}

bool program_is_held() { return held.load(std::memory_order_acquire) != 0; }

void release_program() {
  if (held.exchange(0, std::memory_order_acq_rel) != 0) futex_wake(&held);
}

void wait_while_held() {
  const std::uint64_t deadline = monotonic_ns() + kLongestNs;
  while (program_is_held()) {
    const std::uint64_t now = monotonic_ns();
    if (now >= deadline || !recorder_waits()) {
      log_line(now >= deadline ? "the recorder did not say START in time" : "the recorder has gone");
      release_program();
      return;
    }
    futex_wait(&held, 1, deadline - now < kLookNs ? deadline - now : kLookNs);
  }
}

}  // namespace pillion::shim
