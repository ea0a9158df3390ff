// SPDX-License-Identifier: Apache-2.0
#include "tracing.h"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "call_names.h"

namespace tracer {
namespace {

constexpr long kOptions = PTRACE_O_TRACESYSGOOD | PTRACE_O_TRACECLONE | PTRACE_O_TRACEEXEC;
constexpr int kCallStop = SIGTRAP | 0x80;
constexpr std::uint64_t kMs = 1'000'000;

std::uint64_t now_ns() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000u + static_cast<std::uint64_t>(now.tv_nsec);
}

// The first bytes of a thread's new name.
std::string text_at(pid_t tid, std::uint64_t address) {
  char text[10] = {};
  const iovec here{text, sizeof text};
  const iovec there{reinterpret_cast<void*>(address), sizeof text};
  return process_vm_readv(tid, &here, 1, &there, 1, 0) > 0 ? std::string(text, sizeof text) : std::string();
}

// Waits for a child's change or the time; 0 when neither a change came nor children are gone.
pid_t wait_for_change(int* status, std::uint64_t until_ns) {
  for (;;) {
    const pid_t tid = waitpid(-1, status, __WALL | WNOHANG);
    if (tid != 0) return tid;
    const std::uint64_t now = now_ns();
    if (now >= until_ns) return 0;
    const std::uint64_t left = until_ns - now;
    const timespec patience{static_cast<time_t>(left / 1'000'000'000u),
                            static_cast<long>(left % 1'000'000'000u)};
    sigset_t child;
    sigemptyset(&child);
    sigaddset(&child, SIGCHLD);
    (void)sigtimedwait(&child, nullptr, &patience);
  }
}

}  // namespace

Tracing::Tracing(const Arguments& arguments, pid_t process)
    : arguments_(arguments),
      process_(process),
      report_(std::fopen(arguments.report.c_str(), "we")),
      random_(arguments.seed) {
  sigset_t child;
  sigemptyset(&child);
  sigaddset(&child, SIGCHLD);
  sigprocmask(SIG_BLOCK, &child, nullptr);
}

Tracing::~Tracing() {
  if (report_ != nullptr) std::fclose(report_);
}

bool Tracing::seize() {
  int status = 0;
  return report_ != nullptr && ptrace(PTRACE_SEIZE, process_, 0, kOptions) == 0 &&
         ptrace(PTRACE_INTERRUPT, process_, 0, 0) == 0 && waitpid(process_, &status, __WALL) == process_ &&
         ptrace(PTRACE_SYSCALL, process_, 0, 0) == 0;
}

void Tracing::run() {
  while (!over_) {
    std::uint64_t until = now_ns() + 1'000 * kMs;
    for (const auto& [tid, thread] : threads_) {
      if (thread.due_ns != 0) until = std::min(until, thread.due_ns);
    }
    int status = 0;
    const pid_t tid = wait_for_change(&status, until);
    if (tid < 0) break;
    if (tid > 0) {
      if (WIFSTOPPED(status)) {
        on_stop(tid, status);
      } else {
        threads_.erase(tid);
        if (tid == process_) break;
      }
    }
    release_due();
  }
  if (arguments_.freeze_at == 0 || steps_ < arguments_.freeze_at) std::fputs("done\n", report_);
  std::fflush(report_);
}

void Tracing::on_stop(pid_t tid, int status) {
  const int signal = WSTOPSIG(status);
  const int event = status >> 16;
  if (signal == kCallStop) return on_call(tid);
  if (event == PTRACE_EVENT_EXEC) threads_.clear();
  if (event == PTRACE_EVENT_STOP && signal != SIGTRAP) {  // somebody stopped the process: it stays so
    ptrace(PTRACE_LISTEN, tid, 0, 0);
    return;
  }
  go_on(tid, event != 0 ? 0 : signal);
}

void Tracing::on_call(pid_t tid) {
  __ptrace_syscall_info info{};
  if (ptrace(PTRACE_GET_SYSCALL_INFO, tid, sizeof info, &info) <= 0) return go_on(tid);
  Thread& thread = threads_[tid];
  if (info.op == PTRACE_SYSCALL_INFO_ENTRY) {
    on_entry(tid, thread, info);
    go_on(tid);
  } else if (info.op == PTRACE_SYSCALL_INFO_EXIT && thread.inside) {
    on_exit(tid, thread, info.exit.rval);
  } else {
    go_on(tid);
  }
}

void Tracing::on_entry(pid_t tid, Thread& thread, const __ptrace_syscall_info& info) {
  const auto& call = info.entry;
  thread.number = call.nr;
  if (call.nr == SYS_socket && call.args[0] == AF_UNIX && (call.args[1] & 0xf) == SOCK_SEQPACKET)
    thread.counted = true;
  if (call.nr == SYS_recvmsg) thread.counted = true;
  if (call.nr == SYS_prctl && call.args[0] == PR_SET_NAME) name_thread(tid, thread, call.args[1]);
  thread.inside = thread.counted;
}

void Tracing::name_thread(pid_t tid, Thread& thread, std::uint64_t address) {
  const std::string name = text_at(tid, address);
  if (name.rfind("pillion-", 0) != 0) return;
  thread.counted = thread.named = true;
  thread.capture = name == "pillion-ca";
}

void Tracing::on_exit(pid_t tid, Thread& thread, std::int64_t result) {
  thread.inside = false;
  const std::string call = call_name(thread.number);
  const bool hold = delayed(call) && (!thread.capture || thread.number == SYS_prctl);
  const std::uint64_t delay_ms = hold ? random_() % (arguments_.delay_ms + 1) : 0;
  ++steps_;
  std::fprintf(report_, "%llu %d %s %lld %llu\n", static_cast<unsigned long long>(steps_), tid, call.c_str(),
               static_cast<long long>(result), static_cast<unsigned long long>(delay_ms));
  std::fflush(report_);
  const bool makes_thread = thread.number == SYS_clone || thread.number == SYS_clone3;
  if (makes_thread && !thread.named) thread.counted = false;
  if (steps_ == arguments_.freeze_at) return freeze(tid);
  if (!hold) return go_on(tid);
  ++delayed_;
  thread.due_ns = now_ns() + delay_ms * kMs;
}

bool Tracing::delayed(const std::string& call) const {
  if (arguments_.delay_ms == 0 || (arguments_.delays != 0 && delayed_ >= arguments_.delays)) return false;
  return arguments_.delay_only.empty() || arguments_.delay_only.count(call) != 0;
}

void Tracing::go_on(pid_t tid, int signal) { ptrace(PTRACE_SYSCALL, tid, 0, signal); }

void Tracing::release_due() {
  bool held = false;
  for (auto& [tid, thread] : threads_) {
    if (thread.due_ns == 0) continue;
    if (now_ns() < thread.due_ns) {
      held = true;
      continue;
    }
    thread.due_ns = 0;
    go_on(tid);
  }
  if (!held && arguments_.delays != 0 && delayed_ >= arguments_.delays) over_ = true;
}

// The signal waits for this very thread, which stands behind its call: when the tracer has gone it takes the
// signal before it runs another instruction, and the whole process stops.
void Tracing::freeze(pid_t tid) {
  syscall(SYS_tgkill, process_, tid, SIGSTOP);
  std::fputs("frozen\n", report_);
  over_ = true;
}

}  // namespace tracer
