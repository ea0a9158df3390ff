// SPDX-License-Identifier: Apache-2.0
#include "live_target.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch_test_macros.hpp>
#include <cstdlib>
#include <sstream>

#include "inject/proc_text.h"

namespace pillion::inject {
namespace {

std::string read_line(int fd) {
  std::string line;
  char byte = 0;
  while (::read(fd, &byte, 1) == 1 && byte != '\n') line += byte;
  return line;
}

int count_entries(const std::string& folder) {
  DIR* directory = ::opendir(folder.c_str());
  if (directory == nullptr) return -1;
  int count = 0;
  while (const dirent* entry = ::readdir(directory)) count += entry->d_name[0] != '.' ? 1 : 0;
  ::closedir(directory);
  return count;
}

}  // namespace

LiveTarget::LiveTarget(const std::string& call, int malloc_threads) {
  int in[2];
  int out[2];
  REQUIRE(::pipe2(in, O_CLOEXEC) == 0);
  REQUIRE(::pipe2(out, O_CLOEXEC) == 0);
  const std::string count = std::to_string(malloc_threads);
  const pid_t pid = ::fork();
  if (pid == 0) {
    ::dup2(in[0], 0);
    ::dup2(out[1], 1);
    ::execl(PILLION_INJECT_TARGET, "inject_target", call.c_str(), count.c_str(), nullptr);
    ::_exit(127);
  }
  REQUIRE(pid > 0);
  to_target_.reset(in[1]);
  from_target_.reset(out[0]);
  ::close(in[0]);
  ::close(out[1]);
  std::istringstream line(read_line(from_target_.get()));
  TargetFunctions own;
  line >> own.pthread_create >> own.pthread_detach >> own.dlopen >> own.dlerror >> own.munmap >>
      own.syscall_instruction >> own.sigreturn;
  const auto examined = examine(static_cast<std::uint32_t>(pid), {.force = true});
  if (!examined) FAIL(examined.error().message());
  found_ = *examined;
  const TargetFunctions& functions = found_.functions;
  // What the examination finds in files is what the program's own linker says.
  REQUIRE(functions.pthread_create == own.pthread_create);
  REQUIRE(functions.pthread_detach == own.pthread_detach);
  REQUIRE(functions.dlopen == own.dlopen);
  REQUIRE(functions.dlerror == own.dlerror);
  REQUIRE(functions.munmap == own.munmap);
  REQUIRE(functions.syscall_instruction == own.syscall_instruction);
  REQUIRE(functions.sigreturn == own.sigreturn);
}

LiveTarget::~LiveTarget() {
  if (!to_target_.valid()) return;
  ::kill(pid(), SIGKILL);
  ::waitpid(pid(), nullptr, 0);
}

std::string LiveTarget::maps() const {
  return read_proc_text("/proc/" + std::to_string(found_.pid) + "/maps");
}

int LiveTarget::open_files() const { return count_entries("/proc/" + std::to_string(found_.pid) + "/fd"); }

int LiveTarget::threads() const { return count_entries("/proc/" + std::to_string(found_.pid) + "/task"); }

std::string LiveTarget::end() {
  REQUIRE(::write(to_target_.get(), "x", 1) == 1);
  const std::string said = read_line(from_target_.get());
  int status = 0;
  REQUIRE(::waitpid(pid(), &status, 0) == pid());
  to_target_.reset();
  return said + " " +
         (WIFEXITED(status) ? std::to_string(WEXITSTATUS(status))
                            : "signal " + std::to_string(WTERMSIG(status)));
}

}  // namespace pillion::inject
