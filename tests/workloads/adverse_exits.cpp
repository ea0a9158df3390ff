// SPDX-License-Identifier: Apache-2.0
#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>

#include "adverse.h"

// Every way to end, from main and from another thread. `end HOW` and `end_in_thread HOW` do not come back; at
// once, without a synchronise.
namespace adverse {
namespace {

constexpr int kStatus = 23;

[[noreturn]] void end_by(const std::string& how) {
  if (how == "exit") std::exit(kStatus);
  if (how == "_exit") ::_exit(kStatus);
  if (how == "quick_exit") std::quick_exit(kStatus);
  if (how == "abort") std::abort();
  if (how == "exit_group") ::syscall(SYS_exit_group, kStatus);
  if (how == "segv") *static_cast<volatile int*>(nullptr) = 1;
  if (how == "term" || how == "int") {
    const int number = how == "term" ? SIGTERM : SIGINT;
    std::signal(number, SIG_DFL);  // of the program itself
    ::kill(::getpid(), number);
  }
  if (how == "kill") ::kill(::getpid(), SIGKILL);
  if (how == "exec") ::execl("/bin/sh", "sh", "-c", "exit 23", nullptr);
  for (;;) ::pause();
}

std::string thread_how;

void* end_thread(void*) {
  if (thread_how == "last_thread") {
    // main has gone; this is the last thread's end, and with it the program's, with status 0.
    ::usleep(5000);
    return nullptr;
  }
  end_by(thread_how);
}

bool end(const std::string& how) {
  if (how == "return") {  // the main loop ends, and main() returns
    workload::request_stop();
    return true;
  }
  end_by(how);
}

bool end_in_thread(const std::string& how) {
  thread_how = how;
  pthread_t thread;
  if (pthread_create(&thread, nullptr, end_thread, nullptr) != 0) return false;
  if (how == "last_thread") pthread_exit(nullptr);
  for (;;) ::pause();
}

void* main_loop_goes_on(void* count) {
  launch(*static_cast<std::uint64_t*>(count));
  const std::string line = std::to_string(launches()) + "\n";
  if (::write(1, line.data(), line.size()) < 0) ::_exit(5);
  char byte = 0;
  while (::read(0, &byte, 1) > 0) {
    if (byte == '\n') launch(*static_cast<std::uint64_t*>(count));
    if (byte == '\n' && ::write(1, "ok\n", 3) < 0) ::_exit(5);
  }
  std::exit(0);
}

// main's thread ends; another one goes on, launches so many at once and at each line, and ends the program.
bool end_main_thread(const std::string& count) {
  static std::uint64_t launches_each;
  launches_each = std::strtoull(count.c_str(), nullptr, 10);
  pthread_t thread;
  if (pthread_create(&thread, nullptr, main_loop_goes_on, &launches_each) != 0) return false;
  pthread_exit(nullptr);
}

constexpr Action kActions[] = {
    {"end", end}, {"end_in_thread", end_in_thread}, {"end_main_thread", end_main_thread}};

}  // namespace

std::span<const Action> exit_actions() { return kActions; }

}  // namespace adverse
