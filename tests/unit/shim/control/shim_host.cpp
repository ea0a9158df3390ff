// SPDX-License-Identifier: Apache-2.0
//
// A program with a shim in it, whose capture side is the fake. It does what its standard input says, one word
// per line, and answers with one line each.
#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "fake_capture.h"
#include "system_calls.h"

extern "C" int InitializeInjection(void);

namespace {

using namespace pillion::shim;

const char* name_of(PushResult result) {
  constexpr const char* kNames[] = {"ok", "busy", "full", "closed"};
  return kNames[static_cast<int>(result)];
}

int count_sockets() {
  int sockets = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code error;
    if (std::filesystem::read_symlink(entry, error).string().starts_with("socket:")) ++sockets;
  }
  return sockets;
}

std::string describe_child() {
  static std::uint32_t sequence = 0;
  return std::string("launch=") + name_of(fake_launch(this_tid(), ++sequence)) +
         " sockets=" + std::to_string(count_sockets());
}

// The child reports through a pipe and outlives its parent by a second.
std::string fork_child(bool raw) {
  int report[2];
  if (::pipe(report) != 0) return "no pipe";
  const pid_t child =
      raw ? static_cast<pid_t>(::syscall(SYS_clone, SIGCHLD, nullptr, nullptr, nullptr, nullptr)) : ::fork();
  if (child == 0) {
    const std::string text = describe_child();
    [[maybe_unused]] const ssize_t written = ::write(report[1], text.data(), text.size());
    ::close(report[0]);
    ::close(report[1]);
    const pid_t parent = ::getppid();
    while (::getppid() == parent) sleep_ns(10'000'000);
    sleep_ns(1'000'000'000);
    ::_exit(0);
  }
  ::close(report[1]);
  char text[256] = {};
  [[maybe_unused]] const ssize_t got = ::read(report[0], text, sizeof text - 1);
  ::close(report[0]);
  return text;
}

std::string masks() {
  std::string all;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    std::ifstream status(task.path() / "status");
    const bool is_main = task.path().filename() == std::to_string(::getpid());
    std::string name;
    for (std::string line; std::getline(status, line);) {
      if (line.starts_with("Name:")) name = is_main ? "main" : line.substr(6);
      if (line.starts_with("SigBlk:")) all += name + "=" + line.substr(8) + " ";
    }
  }
  return all;
}

// The entry point once more, from many threads at once.
std::string storm() {
  std::atomic<int> successes{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 32; ++i) threads.emplace_back([&] { successes += InitializeInjection(); });
  for (std::thread& thread : threads) thread.join();
  return std::to_string(successes);
}

int sockets_at_return = 0;

// What a daemon does at its start; and then it opens files of its own, which get the same numbers.
std::string close_everything() {
  ::syscall(SYS_close_range, 3, 4096, 0);
  int last = 0;
  for (int i = 0; i < 300; ++i) last = ::dup(0);
  return "last=" + std::to_string(last);
}

std::string count_open(int from, int to) {
  int open = 0;
  for (int fd = from; fd < to; ++fd) open += ::fcntl(fd, F_GETFD) >= 0 ? 1 : 0;
  return std::to_string(open);
}

std::string limit(int resource, rlim_t value) {
  const rlimit wanted{value, value};
  return ::setrlimit(static_cast<__rlimit_resource>(resource), &wanted) == 0 ? "set" : "failed";
}

// Another thread must answer the broadcast of setresuid(), and so must the shim's.
std::string set_uid() { return ::setresuid(::getuid(), ::geteuid(), ::getuid()) == 0 ? "set" : "failed"; }

std::string run(const std::string& command) {
  if (command == "fork") return fork_child(false);
  if (command == "rawfork") return fork_child(true);
  if (command == "masks") return masks();
  if (command == "setuid") return set_uid();
  if (command == "closeall") return close_everything();
  if (command == "fds") return count_open(3, 199);
  if (command == "highfds") return count_open(199, 1024);
  if (command == "nofilesize") return limit(RLIMIT_FSIZE, 0);
  if (command == "nofds") return limit(RLIMIT_NOFILE, 3);
  if (command == "launch") return describe_child();
  if (command == "storm") return storm();
  if (command == "sockets") return std::to_string(sockets_at_return);
  if (command == "again") return std::to_string(InitializeInjection());
  if (command.starts_with("dlopen ")) {
    return ::dlopen(command.c_str() + 7, RTLD_NOW) != nullptr ? "loaded" : ::dlerror();
  }
  return "what?";
}

}  // namespace

int main() {
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  if (InitializeInjection() != 1) return 9;
  sockets_at_return = count_sockets();
  std::puts("ready");
  for (char line[512]; std::fgets(line, sizeof line, stdin) != nullptr;) {
    line[std::strcspn(line, "\n")] = '\0';
    if (std::strcmp(line, "exit") == 0) return 5;
    std::printf("%s\n", run(line).c_str());
  }
  ::_exit(6);
}
