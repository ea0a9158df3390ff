// SPDX-License-Identifier: Apache-2.0
#include "inject/stopped_thread.h"

#include <elf.h>
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>

#include <algorithm>
#include <cerrno>
#include <utility>

namespace pillion::inject {
namespace {

constexpr std::size_t kExtendedMax = 64 * 1024;
constexpr std::uint64_t kLookAgainNs = 50'000'000;  // should a SIGCHLD have been lost

Stop classify(int status) {
  constexpr int kCallMark = 0x80;  // PTRACE_O_TRACESYSGOOD
  if (!WIFSTOPPED(status)) return {Stop::Kind::gone, 0};
  const int signal = WSTOPSIG(status);
  if (signal == (SIGTRAP | kCallMark)) return {Stop::Kind::system_call, 0};
  if (status >> 16 == PTRACE_EVENT_STOP) return {Stop::Kind::interrupted, signal == SIGTRAP ? 0 : signal};
  return {Stop::Kind::signal, signal};
}

}  // namespace

std::uint64_t monotonic_now_ns() {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000u + static_cast<std::uint64_t>(now.tv_nsec);
}

Result<StoppedThread> StoppedThread::seize(std::uint32_t tid, bool suspend_seccomp) {
  const long plain = PTRACE_O_TRACESYSGOOD;
  const auto attach = [tid](long options) { return ::ptrace(PTRACE_SEIZE, tid, nullptr, options) == 0; };
  const bool done = (suspend_seccomp && attach(plain | PTRACE_O_SUSPEND_SECCOMP)) || attach(plain);
  if (!done) return fail_errno("attach to thread", std::to_string(tid));
  return StoppedThread(tid);
}

StoppedThread::StoppedThread(StoppedThread&& other) noexcept
    : tid_(other.tid_), attached_(std::exchange(other.attached_, false)) {}

StoppedThread::~StoppedThread() { detach(); }

Result<void> StoppedThread::interrupt() {
  if (::ptrace(PTRACE_INTERRUPT, tid_, nullptr, nullptr) != 0)
    return fail_errno("stop thread", std::to_string(tid_));
  return {};
}

Stop StoppedThread::wait(std::uint64_t deadline_ns) {
  sigset_t child;
  ::sigemptyset(&child);
  ::sigaddset(&child, SIGCHLD);
  for (;;) {
    int status = 0;
    const pid_t got = ::waitpid(static_cast<pid_t>(tid_), &status, __WALL | WNOHANG);
    if (got > 0) {
      const Stop stop = classify(status);
      if (stop.kind == Stop::Kind::gone) attached_ = false;
      return stop;
    }
    if (got < 0 && errno != EINTR) {
      attached_ = false;
      return {Stop::Kind::gone, 0};
    }
    const std::uint64_t now = monotonic_now_ns();
    if (now >= deadline_ns) return {};
    const std::uint64_t patience = std::min(deadline_ns - now, kLookAgainNs);
    const timespec limit{0, static_cast<long>(patience)};
    (void)::sigtimedwait(&child, nullptr, &limit);
  }
}

Result<void> StoppedThread::resume(int request, int signal, const char* what) {
  if (::ptrace(static_cast<__ptrace_request>(request), tid_, nullptr, static_cast<long>(signal)) != 0) {
    return fail_errno(what, std::to_string(tid_));
  }
  return {};
}

Result<void> StoppedThread::run_to_call(int signal) {
  return resume(PTRACE_SYSCALL, signal, "continue thread");
}
Result<void> StoppedThread::run(int signal) { return resume(PTRACE_CONT, signal, "continue thread"); }

void StoppedThread::detach(int signal) {
  if (std::exchange(attached_, false)) (void)resume(PTRACE_DETACH, signal, "detach from thread");
}

Result<Registers> StoppedThread::registers() const {
  Registers registers{};
  if (::ptrace(PTRACE_GETREGS, tid_, nullptr, &registers) != 0) {
    return fail_errno("read registers of thread", std::to_string(tid_));
  }
  return registers;
}

Result<ThreadImage> StoppedThread::image() const {
  ThreadImage image;
  auto general = registers();
  if (!general) return tl::make_unexpected(general.error());
  image.registers = *general;
  image.extended.resize(kExtendedMax);
  iovec area{image.extended.data(), image.extended.size()};
  if (::ptrace(PTRACE_GETREGSET, tid_, reinterpret_cast<void*>(NT_X86_XSTATE), &area) != 0) {
    return fail_errno("read vector registers of thread", std::to_string(tid_));
  }
  image.extended.resize(area.iov_len);
  if (::ptrace(PTRACE_GETSIGMASK, tid_, reinterpret_cast<void*>(sizeof image.signal_mask),
               &image.signal_mask) != 0) {
    return fail_errno("read signal mask of thread", std::to_string(tid_));
  }
  return image;
}

Result<void> StoppedThread::set_registers(const Registers& registers) {
  if (::ptrace(PTRACE_SETREGS, tid_, nullptr, &registers) != 0) {
    return fail_errno("set registers of thread", std::to_string(tid_));
  }
  return {};
}

Result<void> StoppedThread::set_extended(std::span<const std::byte> extended) {
  iovec area{const_cast<std::byte*>(extended.data()), extended.size()};
  if (::ptrace(PTRACE_SETREGSET, tid_, reinterpret_cast<void*>(NT_X86_XSTATE), &area) != 0) {
    return fail_errno("set vector registers of thread", std::to_string(tid_));
  }
  return {};
}

Result<void> StoppedThread::set_signal_mask(std::uint64_t mask) {
  if (::ptrace(PTRACE_SETSIGMASK, tid_, reinterpret_cast<void*>(sizeof mask), &mask) != 0) {
    return fail_errno("set signal mask of thread", std::to_string(tid_));
  }
  return {};
}

Result<void> StoppedThread::write(std::uint64_t address, std::span<const std::byte> bytes) {
  const iovec from{const_cast<std::byte*>(bytes.data()), bytes.size()};
  const iovec to{reinterpret_cast<void*>(address), bytes.size()};
  const ssize_t done = ::process_vm_writev(static_cast<pid_t>(tid_), &from, 1, &to, 1, 0);
  if (done != static_cast<ssize_t>(bytes.size()))
    return fail_errno("write to the stack of thread", std::to_string(tid_));
  return {};
}

}  // namespace pillion::inject
