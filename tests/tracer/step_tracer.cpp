// SPDX-License-Identifier: Apache-2.0
//
// Runs a command and stops or delays it at one system call of Pillion's handshake, with nothing in the
// program changed. The command keeps this process's pid; the tracer is a process beside it that lets go when
// its work is done, so that the command runs on untraced.
#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

#include "arguments.h"
#include "tracing.h"

namespace {

[[noreturn]] void fail(const char* what) {
  std::perror(what);
  std::_Exit(2);
}

// The tracer holds no pipe of the command's open, and says nothing where the command is listened to.
void leave_streams() {
  const int null = open("/dev/null", O_RDWR | O_CLOEXEC);
  for (int fd = 0; fd < 3; ++fd) dup2(null, fd);
  setsid();
}

// In a grandchild, so that the command has no child that it did not make.
void start_tracer(const tracer::Arguments& arguments, pid_t command, int started) {
  const pid_t child = fork();
  if (child < 0) fail("fork");
  if (child > 0) {
    waitpid(child, nullptr, 0);
    return;
  }
  if (fork() != 0) _exit(0);
  leave_streams();
  tracer::Tracing tracing(arguments, command);
  const char answer = tracing.seize() ? 'y' : 'n';
  if (write(started, &answer, 1) != 1) _exit(1);
  close(started);
  if (answer == 'y') tracing.run();
  _exit(0);
}

}  // namespace

int main(int argc, char** argv) {
  const tracer::Arguments arguments = tracer::parse_arguments(argc, argv);
  int started[2];
  if (pipe2(started, O_CLOEXEC) != 0) fail("pipe2");
  prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY);  // where Yama has children traced only
  start_tracer(arguments, getpid(), started[1]);
  close(started[1]);
  char answer = 'n';
  if (read(started[0], &answer, 1) != 1 || answer != 'y') {
    std::fprintf(stderr, "step_tracer: may not trace this process\n");
    return 2;
  }
  execvp(arguments.command[0], arguments.command.data());
  fail(arguments.command[0]);
}
