// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <linux/futex.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>

// System calls whose libc wrapper is missing from, or newer than, glibc 2.17 (fstat moved in 2.33, gettid
// came in 2.30). Any thread, any signal context.
namespace pillion::shim {

[[nodiscard]] inline std::uint64_t monotonic_ns() {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000u + static_cast<std::uint64_t>(now.tv_nsec);
}

// Asks the kernel (78 ns): the launch path keeps its own copy.
[[nodiscard]] inline std::uint32_t this_tid() { return static_cast<std::uint32_t>(::syscall(SYS_gettid)); }

// Asks the kernel: glibc before 2.25 kept the parent's pid after a raw clone.
[[nodiscard]] inline std::uint32_t this_pid() { return static_cast<std::uint32_t>(::syscall(SYS_getpid)); }

[[nodiscard]] inline bool file_status(int fd, struct stat* out) { return ::syscall(SYS_fstat, fd, out) == 0; }

// Of the name itself, not of what a symbolic link leads to.
[[nodiscard]] inline bool name_status(int directory, const char* name, struct stat* out) {
  constexpr int kNoFollow = 0x100;  // AT_SYMLINK_NOFOLLOW
  return ::syscall(SYS_newfstatat, directory, name, out, kNoFollow) == 0;
}

// True when no thread of this process has this tid any more.
[[nodiscard]] bool thread_is_gone(std::uint32_t tid);

// Sleeps while *word == expected, at most `nanoseconds`. Wakes early for no reason too.
void futex_wait(std::atomic<std::uint32_t>* word, std::uint32_t expected, std::uint64_t nanoseconds);
void futex_wake(std::atomic<std::uint32_t>* word);

void sleep_ns(std::uint64_t nanoseconds);

}  // namespace pillion::shim
