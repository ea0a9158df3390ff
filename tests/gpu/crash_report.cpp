// SPDX-License-Identifier: Apache-2.0
// For LD_PRELOAD in GPU runs: on a fatal signal prints the crashing thread's stack and the executable
// mappings, then dies of it as it would have. Machines with a GPU rarely have a debugger.
#include <dlfcn.h>
#include <execinfo.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <cstdio>
#include <initializer_list>

namespace {

void on_fatal(int signal, siginfo_t* info, void*) {
  char name[16] = {};
  ::prctl(PR_GET_NAME, name);
  char text[128];
  const int n =
      std::snprintf(text, sizeof text, "CRASH signal %d at %p in thread '%s'\n", signal, info->si_addr, name);
  (void)!::write(2, text, static_cast<size_t>(n));
  void* frames[64];
  ::backtrace_symbols_fd(frames, ::backtrace(frames, 64), 2);
  ::raise(signal);  // the handler is one-shot
}

struct Install {
  Install() {
    void* first[1];
    (void)::backtrace(first, 1);  // loads libgcc now
    struct sigaction action = {};
    action.sa_sigaction = on_fatal;
    action.sa_flags = SA_SIGINFO | static_cast<int>(SA_RESETHAND);
    for (int signal : {SIGSEGV, SIGBUS, SIGABRT, SIGILL, SIGFPE}) ::sigaction(signal, &action, nullptr);
  }
} install;

}  // namespace
