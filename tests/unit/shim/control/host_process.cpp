// SPDX-License-Identifier: Apache-2.0
#include "host_process.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <stdexcept>
#include <vector>

namespace pillion::shim::test {

SocketDirectory::SocketDirectory() {
  char name[] = "/tmp/pillion-shim-XXXXXX";
  if (::mkdtemp(name) == nullptr) throw std::runtime_error("mkdtemp");
  path_ = name;
  ::chmod(name, 0777);
}

SocketDirectory::~SocketDirectory() {
  std::error_code error;
  std::filesystem::remove_all(path_, error);
}

std::string SocketDirectory::names() const {
  std::vector<std::string> all;
  for (const auto& entry : std::filesystem::directory_iterator(path_)) all.push_back(entry.path().filename());
  std::sort(all.begin(), all.end());
  std::string text;
  for (const auto& name : all) text += (text.empty() ? "" : " ") + name;
  return text;
}

HostProcess::HostProcess(const SocketDirectory& directory, const Environment& environment) {
  int in[2];
  int out[2];
  int err[2];
  if (::pipe2(in, O_CLOEXEC) != 0 || ::pipe2(out, O_CLOEXEC) != 0 || ::pipe2(err, O_CLOEXEC) != 0) {
    throw std::runtime_error("pipe");
  }
  pid_ = ::fork();
  if (pid_ == 0) {
    ::dup2(in[0], 0);
    ::dup2(out[1], 1);
    ::dup2(err[1], 2);
    ::syscall(SYS_close_range, 3, ~0u, 4 /* CLOSE_RANGE_CLOEXEC */);  // what the test itself inherited
    ::setenv("PILLION_SOCKET_DIR", directory.path().c_str(), 1);
    for (const auto& [name, value] : environment) ::setenv(name.c_str(), value.c_str(), 1);
    ::execl(SHIM_HOST, SHIM_HOST, nullptr);
    ::_exit(127);
  }
  ::close(in[0]);
  ::close(out[1]);
  ::close(err[1]);
  input_ = in[1];
  output_ = out[0];
  errors_ = err[0];
  if (read_line() != "ready") throw std::runtime_error("shim_host did not start");
  for (const auto& entry : std::filesystem::directory_iterator(directory.path())) {
    const std::string name = entry.path().filename();
    if (name.find("-" + std::to_string(pid_) + "-") != std::string::npos) socket_ = entry.path();
  }
}

HostProcess::~HostProcess() {
  kill();
  wait(5000);
  close_input();
  ::close(output_);
  ::close(errors_);
}

std::string HostProcess::read_line() {
  std::string line;
  for (char c;;) {
    pollfd watched{output_, POLLIN, 0};
    if (::poll(&watched, 1, 20'000) <= 0) throw std::runtime_error("shim_host does not answer");
    if (::read(output_, &c, 1) <= 0) throw std::runtime_error("shim_host has ended, said: " + line);
    if (c == '\n') return line;
    line += c;
  }
}

void HostProcess::tell(const std::string& command) {
  const std::string line = command + "\n";
  if (::write(input_, line.data(), line.size()) < 0) throw std::runtime_error("shim_host does not listen");
}

std::string HostProcess::ask(const std::string& command) {
  tell(command);
  return read_line();
}

void HostProcess::kill() {
  if (status_ < 0) ::kill(pid_, SIGKILL);
}

void HostProcess::close_input() {
  if (input_ >= 0) ::close(input_);
  input_ = -1;
}

int HostProcess::wait(int ms) {
  eventually(
      [&] {
        int status = 0;
        if (status_ < 0 && ::waitpid(pid_, &status, WNOHANG) == pid_) {
          status_ = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
        }
        return status_ >= 0;
      },
      ms);
  return status_;
}

std::string HostProcess::errors() {
  std::string text;
  char part[4096];
  for (ssize_t got; (got = ::read(errors_, part, sizeof part)) > 0;)
    text.append(part, static_cast<std::size_t>(got));
  return text;
}

}  // namespace pillion::shim::test
