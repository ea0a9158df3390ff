// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "base/result.h"
#include "inject/x86_64.h"

namespace pillion::inject {

// Why a traced thread has stopped.
struct Stop {
  enum class Kind : std::uint8_t {
    system_call,  // at its entry or its exit
    interrupted,  // as asked by interrupt(), or because the whole process was stopped by a signal
    signal,       // one is about to be delivered: `signal`
    gone,         // the thread has ended
    timeout       // it did not stop in time
  };
  Kind kind = Kind::timeout;
  int signal = 0;  // `interrupted`: not 0 when the process is stopped, by this
};

// One thread under ptrace. The calling thread is its tracer, so every method belongs to that one; SIGCHLD
// must be blocked in it. Every wait has a deadline (CLOCK_MONOTONIC, nanoseconds). The kernel lets the thread
// go when the tracer ends, however it ends.
class StoppedThread {
 public:
  // Attaches without stopping. `suspend_seccomp`: filters do not see the thread's calls; left out where that
  // is not permitted.
  [[nodiscard]] static Result<StoppedThread> seize(std::uint32_t tid, bool suspend_seccomp);

  StoppedThread(StoppedThread&& other) noexcept;
  StoppedThread(const StoppedThread&) = delete;
  StoppedThread& operator=(const StoppedThread&) = delete;
  StoppedThread& operator=(StoppedThread&&) = delete;
  ~StoppedThread();  // detaches

  [[nodiscard]] std::uint32_t tid() const { return tid_; }

  [[nodiscard]] Result<void> interrupt();
  [[nodiscard]] Stop wait(std::uint64_t deadline_ns);
  // Lets it run to the entry or exit of a system call, delivering `signal` if that is not 0.
  [[nodiscard]] Result<void> run_to_call(int signal = 0);
  [[nodiscard]] Result<void> run(int signal = 0);
  // Only while stopped; delivers `signal` if that is not 0.
  void detach(int signal = 0);

  [[nodiscard]] Result<ThreadImage> image() const;
  [[nodiscard]] Result<Registers> registers() const;
  [[nodiscard]] Result<void> set_registers(const Registers& registers);
  [[nodiscard]] Result<void> set_extended(std::span<const std::byte> extended);
  [[nodiscard]] Result<void> set_signal_mask(std::uint64_t mask);
  [[nodiscard]] Result<void> write(std::uint64_t address, std::span<const std::byte> bytes);

 private:
  explicit StoppedThread(std::uint32_t tid) : tid_(tid) {}
  [[nodiscard]] Result<void> resume(int request, int signal, const char* what);

  std::uint32_t tid_;
  bool attached_ = true;
};

[[nodiscard]] std::uint64_t monotonic_now_ns();

}  // namespace pillion::inject
