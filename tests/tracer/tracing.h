// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/ptrace.h>
#include <sys/types.h>

#include <cstdint>
#include <cstdio>
#include <map>
#include <random>

#include "arguments.h"

namespace tracer {

// Follows the system calls of one process and finds the handshake's in them. A step is a system call, counted
// when it returns, of
//   - a thread, from its first socket(AF_UNIX, SOCK_SEQPACKET) until it makes a thread: the program's own
//     inside cuInit, or the sidecar's that connects;
//   - a thread, from its first recvmsg: the sidecar's that attaches;
//   - a thread that named itself pillion-something: the shim's.
// Each step is a line "STEP TID CALL RESULT DELAY_MS" in the report; "frozen" or "done" is the last one.
class Tracing {
 public:
  Tracing(const Arguments& arguments, pid_t process);
  ~Tracing();
  Tracing(const Tracing&) = delete;
  Tracing& operator=(const Tracing&) = delete;

  // The process is stopped for a moment. False when the kernel does not let us.
  [[nodiscard]] bool seize();
  // Returns when there is nothing more to do; the end of the calling process then lets everything go.
  void run();

 private:
  struct Thread {
    bool counted = false;
    bool named = false;    // one of the shim's own
    bool capture = false;  // the one inside CUPTI: not delayed, its calls are CUPTI's and no step of ours
    bool inside = false;   // a call that will be a step when it returns
    std::uint64_t number = 0;
    std::uint64_t due_ns = 0;  // held until then
  };

  void on_stop(pid_t tid, int status);
  void on_call(pid_t tid);
  void on_entry(pid_t tid, Thread& thread, const __ptrace_syscall_info& info);
  static void name_thread(pid_t tid, Thread& thread, std::uint64_t address);
  void on_exit(pid_t tid, Thread& thread, std::int64_t result);
  [[nodiscard]] bool delayed(const std::string& call) const;
  void go_on(pid_t tid, int signal = 0);
  void release_due();
  void freeze(pid_t tid);

  const Arguments& arguments_;
  const pid_t process_;
  std::FILE* report_;
  std::map<pid_t, Thread> threads_;
  std::mt19937_64 random_;
  std::uint64_t steps_ = 0;
  std::uint64_t delayed_ = 0;
  bool over_ = false;
};

}  // namespace tracer
