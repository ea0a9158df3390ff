// SPDX-License-Identifier: Apache-2.0
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>

#include "adverse.h"

// Signals: handlers of the program's own, timers, faults on purpose, launches from a handler.
namespace adverse {
namespace {

constexpr int kFirstRealTime = 34;  // 32 and 33 are libc's own

std::atomic<std::uint64_t> counted{0};
std::atomic<std::uint64_t> ticks{0};
std::atomic<std::uint64_t> faults{0};
std::atomic<std::uint64_t> handler_launches_left{0};
char* guard_page;

void handle(int number, void (*handler)(int), int flags) {
  struct sigaction action {};
  action.sa_handler = handler;
  action.sa_flags = flags;
  ::sigaction(number, &action, nullptr);
}

void count_one(int number) {
  ++counted;
  if (number == SIGSEGV || number == SIGBUS || number == SIGILL || number == SIGFPE)
    handle(number, SIG_DFL, 0);  // it comes again at once, and ends the program
}

// A handler without SA_RESTART for every signal: whatever somebody sent would be counted, and interrupt a
// call.
bool count_signals(const std::string&) {
  for (int number = 1; number < NSIG; ++number) {
    if (number == SIGKILL || number == SIGSTOP || (number >= 32 && number < kFirstRealTime)) continue;
    handle(number, count_one, 0);
  }
  return true;
}

void tick(int) {
  const int saved_errno = errno;
  ++ticks;
  errno = saved_errno;
}

bool start_timer(int which, int number, void (*handler)(int), long period_us) {
  handle(number, handler, 0);
  const itimerval period{{0, period_us}, {0, period_us}};
  return ::setitimer(static_cast<__itimer_which>(which), &period, nullptr) == 0;
}

bool profiling_timer(const std::string&) { return start_timer(ITIMER_PROF, SIGPROF, tick, 1000); }
bool alarm_timer(const std::string&) { return start_timer(ITIMER_REAL, SIGALRM, tick, 1000); }

void launch_from_alarm(int) {
  const int saved_errno = errno;
  ++ticks;
  if (handler_launches_left > 0) {
    --handler_launches_left;
    launch_in_handler();
  }
  errno = saved_errno;
}

// The signal finds the thread in pause(), outside any driver call, whose locks it would otherwise meet.
bool launch_from_handler(const std::string& count) {
  handler_launches_left = std::strtoull(count.c_str(), nullptr, 10);
  if (!start_timer(ITIMER_REAL, SIGALRM, launch_from_alarm, 1000)) return false;
  while (handler_launches_left > 0) ::pause();
  const itimerval none{};
  if (::setitimer(ITIMER_REAL, &none, nullptr) != 0) return false;
  CHECK(cuCtxSynchronize());
  return true;
}

// As runtimes do that find out by a fault what a page is for.
void on_fault(int, siginfo_t* info, void*) {
  if (info->si_addr < guard_page || info->si_addr >= guard_page + 4096) std::_Exit(99);
  ++faults;
  ::mprotect(guard_page, 4096, PROT_READ | PROT_WRITE);
}

bool handle_faults(const std::string&) {
  stack_t stack{};
  stack.ss_size = 65536;
  stack.ss_sp = std::malloc(stack.ss_size);
  if (::sigaltstack(&stack, nullptr) != 0) return false;
  void* page = ::mmap(nullptr, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (page == MAP_FAILED) return false;
  guard_page = static_cast<char*>(page);
  struct sigaction action {};
  action.sa_sigaction = on_fault;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK;
  return ::sigaction(SIGSEGV, &action, nullptr) == 0 && ::sigaction(SIGBUS, &action, nullptr) == 0;
}

bool fault(const std::string& count) {
  for (std::uint64_t left = std::strtoull(count.c_str(), nullptr, 10); left > 0; --left) {
    ::mprotect(guard_page, 4096, PROT_NONE);
    *static_cast<volatile char*>(guard_page) = 1;
  }
  return true;
}

// Children that end, each with a SIGCHLD. Waits until all have been counted.
bool children_end(const std::string& count) {
  handle(SIGCHLD, tick, 0);
  const std::uint64_t wanted = std::strtoull(count.c_str(), nullptr, 10);
  for (std::uint64_t i = 0; i < wanted; ++i) {
    const pid_t child = ::fork();
    if (child == 0) ::_exit(0);
    while (::waitpid(child, nullptr, 0) < 0 && errno == EINTR) {
    }
  }
  return ticks == wanted;
}

constexpr Action kActions[] = {
    {"count_signals", count_signals}, {"profiling_timer", profiling_timer},
    {"alarm_timer", alarm_timer},     {"launch_from_handler", launch_from_handler},
    {"handle_faults", handle_faults}, {"fault", fault},
    {"children_end", children_end},
};

}  // namespace

std::span<const Action> signal_actions() { return kActions; }
std::uint64_t signals_counted() { return counted; }
std::uint64_t timer_signals() { return ticks; }
std::uint64_t faults_handled() { return faults; }

}  // namespace adverse
