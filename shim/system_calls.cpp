// SPDX-License-Identifier: Apache-2.0
#include "system_calls.h"

#include <cerrno>

namespace pillion::shim {
namespace {

timespec to_timespec(std::uint64_t nanoseconds) {
  timespec time{};
  time.tv_sec = static_cast<time_t>(nanoseconds / 1'000'000'000u);
  time.tv_nsec = static_cast<long>(nanoseconds % 1'000'000'000u);
  return time;
}

std::uint32_t* word_of(std::atomic<std::uint32_t>* word) { return reinterpret_cast<std::uint32_t*>(word); }

}  // namespace

bool thread_is_gone(std::uint32_t tid) {
  return ::syscall(SYS_tgkill, static_cast<long>(this_pid()), static_cast<long>(tid), 0) != 0 &&
         errno == ESRCH;
}

void futex_wait(std::atomic<std::uint32_t>* word, std::uint32_t expected, std::uint64_t nanoseconds) {
  const timespec timeout = to_timespec(nanoseconds);
  ::syscall(SYS_futex, word_of(word), FUTEX_WAIT_PRIVATE, expected, &timeout, nullptr, 0);
}

void futex_wake(std::atomic<std::uint32_t>* word) {
  ::syscall(SYS_futex, word_of(word), FUTEX_WAKE_PRIVATE, 0x7fffffff, nullptr, nullptr, 0);
}

void sleep_ns(std::uint64_t nanoseconds) {
  const timespec time = to_timespec(nanoseconds);
  ::nanosleep(&time, nullptr);
}

}  // namespace pillion::shim
