// SPDX-License-Identifier: Apache-2.0
#include <sched.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>

#include "adverse.h"

// Children of every kind. Each must end as it would without anybody in the process.
namespace adverse {
namespace {

constexpr int kStatus = 7;

bool ended_with(pid_t child, int wanted) {
  int status = 0;
  while (::waitpid(child, &status, 0) < 0) {
    if (errno != EINTR) return false;
  }
  errno = ECHILD;
  return WIFEXITED(status) && WEXITSTATUS(status) == wanted;
}

// Through exit(), so that every handler runs that the child has inherited.
bool fork_exit(const std::string& count) {
  for (std::uint64_t left = std::strtoull(count.c_str(), nullptr, 10); left > 0; --left) {
    const pid_t child = ::fork();
    if (child == 0) std::exit(kStatus);
    if (child < 0 || !ended_with(child, kStatus)) return false;
  }
  return true;
}

bool vfork_exec(const std::string&) {
  const pid_t child = ::vfork();
  if (child == 0) {
    ::execl("/bin/sh", "sh", "-c", "exit 7", nullptr);
    ::_exit(1);
  }
  return child > 0 && ended_with(child, kStatus);
}

// No handler of pthread_atfork knows of it.
bool raw_clone(const std::string&) {
  const long child = ::syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
  if (child == 0) std::exit(kStatus);
  return child > 0 && ended_with(static_cast<pid_t>(child), kStatus);
}

// The grandchild outlives the child that made it, and writes its end into a pipe.
bool double_fork(const std::string&) {
  int ends[2];
  if (::pipe(ends) != 0) return false;
  const pid_t child = ::fork();
  if (child == 0) {
    ::setsid();
    if (::fork() == 0) {
      ::usleep(20'000);
      const char last = 'x';
      if (::write(ends[1], &last, 1) != 1) ::_exit(1);
      std::exit(0);
    }
    ::_exit(kStatus);
  }
  ::close(ends[1]);
  char byte = 0;
  const bool whole = ended_with(child, kStatus) && ::read(ends[0], &byte, 1) == 1 && byte == 'x';
  ::close(ends[0]);
  return whole;
}

// daemon(3): what goes on is a child, which CUDA does not survive in.
bool become_daemon(const std::string&) { return ::daemon(1, 1) == 0; }

constexpr Action kActions[] = {
    {"fork_exit", fork_exit},     {"vfork_exec", vfork_exec}, {"raw_clone", raw_clone},
    {"double_fork", double_fork}, {"daemon", become_daemon},
};

}  // namespace

std::span<const Action> child_actions() { return kActions; }

}  // namespace adverse
