// SPDX-License-Identifier: Apache-2.0
#include "inject/injector.h"

#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <new>

#include "base/unique_fd.h"
#include "inject/injection.h"
#include "inject/other_injection.h"

namespace pillion::inject {
namespace {

constexpr int kHelperMs = 30'000;
constexpr int kReapMs = 1'000;

struct Unmap {
  void operator()(InjectionReport* report) const { ::munmap(report, sizeof *report); }
};
using SharedReport = std::unique_ptr<InjectionReport, Unmap>;

SharedReport share_report() {
  void* memory =
      ::mmap(nullptr, sizeof(InjectionReport), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return nullptr;
  return SharedReport(new (memory) InjectionReport);
}

// A child of a program with many threads: it logs nothing, and keeps none of the parent's connections open.
[[noreturn]] void be_helper(const Examination& found, const InjectionSettings& settings,
                            InjectionReport& report) {
  ::syscall(SYS_close_range, 3u, ~0u, 0u);
  ::prctl(PR_SET_NAME, kHelperName);
  sigset_t child;
  ::sigemptyset(&child);
  ::sigaddset(&child, SIGCHLD);
  ::sigprocmask(SIG_BLOCK, &child, nullptr);
  ::signal(SIGCHLD, SIG_DFL);
  run_injection(found, settings, report);
  ::_exit(0);
}

// True once it has ended.
bool wait_for(int pidfd, int milliseconds) {
  pollfd ended{pidfd, POLLIN, 0};
  int got = 0;
  do {
    got = ::poll(&ended, 1, milliseconds);
  } while (got < 0 && errno == EINTR);
  return got > 0;
}

std::string fate(pid_t helper, int pidfd) {
  std::string fate = "the helper process";
  if (!wait_for(pidfd, kHelperMs)) {
    ::kill(helper, SIGKILL);
    fate += " did not end in time and was killed";
    if (!wait_for(pidfd, kReapMs)) return fate + "; it is held up inside the kernel";
  }
  int status = 0;
  if (::waitpid(helper, &status, 0) == helper && WIFSIGNALED(status)) {
    fate += " died of signal " + std::to_string(WTERMSIG(status));
  }
  return fate;
}

std::string words(const InjectionOutcome& outcome, const Examination& found) {
  const std::string process = "process " + std::to_string(found.pid) + " (" + found.comm + ")";
  switch (outcome.status) {
    case InjectionStatus::injected:
      return "the shim is in " + process + " and listens at " + outcome.socket;
    case InjectionStatus::already_there:
      return process + " has the shim already (" + outcome.library + "): nothing was done";
    case InjectionStatus::in_progress:
      if (!outcome.text.empty())
        return "another injection into " + process + " is in progress, by " + outcome.text +
               ": wait until it has ended, 30 s at most, and look again";
      return "another injection into " + process +
             " is in progress, or was broken off some seconds ago: try again";
    case InjectionStatus::target_gone:
      return process + " has ended";
    case InjectionStatus::failed:
      break;
  }
  return outcome.text;
}

}  // namespace

const char* status_name(InjectionStatus status) {
  switch (status) {
    case InjectionStatus::injected:
      return "injected";
    case InjectionStatus::already_there:
      return "already there";
    case InjectionStatus::in_progress:
      return "in progress";
    case InjectionStatus::target_gone:
      return "target gone";
    case InjectionStatus::failed:
      return "failed";
  }
  return "?";
}

const char* step_name(Step step) {
  constexpr const char* kNames[] = {
      "none",           "seized",           "stopped",        "way back laid",
      "first call set", "signals blocked",  "file made",      "code mapped",
      "creation set",   "creation entered", "loader created", "state restored",
      "detached",       "claimed",          "library made",   "library filled",
      "library loaded", "CUPTI made",       "shim started",   "loader dismissed"};
  static_assert(sizeof kNames / sizeof kNames[0] == static_cast<std::size_t>(Step::count));
  return step < Step::count ? kNames[static_cast<std::size_t>(step)] : "?";
}

InjectionOutcome inject(const Examination& found, const InjectionSettings& settings) {
  InjectionOutcome outcome;
  const SharedReport report = share_report();
  if (!report) {
    outcome.text = std::string("cannot make memory for a helper process: ") + std::strerror(errno);
    return outcome;
  }
  const pid_t helper = ::fork();
  if (helper == 0) be_helper(found, settings, *report);
  if (helper < 0) {
    outcome.text = std::string("cannot start a helper process: ") + std::strerror(errno);
    return outcome;
  }
  const UniqueFd pidfd(static_cast<int>(::syscall(SYS_pidfd_open, helper, 0)));
  const std::string end = fate(helper, pidfd.get());
  outcome.last_step = static_cast<Step>(report->last_step);
  outcome.tid = report->tid;
  outcome.stopped_ns = report->stopped_ns;
  outcome.socket = report->socket;
  outcome.library = report->library;
  outcome.cupti = report->cupti;
  outcome.text = report->text;
  if (report->finished == 0) {
    outcome.text = end + " after the step \"" + step_name(outcome.last_step) + "\"; process " +
                   std::to_string(found.pid) + " runs on";
    return outcome;
  }
  outcome.status = static_cast<InjectionStatus>(report->status);
  outcome.text = words(outcome, found);
  return outcome;
}

}  // namespace pillion::inject
