// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <map>
#include <string>
#include <thread>

namespace pillion::shim::test {

// A socket directory of its own, gone with the object.
class SocketDirectory {
 public:
  SocketDirectory();
  ~SocketDirectory();
  SocketDirectory(const SocketDirectory&) = delete;
  SocketDirectory& operator=(const SocketDirectory&) = delete;
  [[nodiscard]] const std::string& path() const { return path_; }
  // Names in it, blank-separated, sorted.
  [[nodiscard]] std::string names() const;

 private:
  std::string path_;
};

using Environment = std::map<std::string, std::string>;

// shim_host, started with this environment on top of a small one. Killed with the object.
class HostProcess {
 public:
  explicit HostProcess(const SocketDirectory& directory, const Environment& environment = {});
  ~HostProcess();
  HostProcess(const HostProcess&) = delete;
  HostProcess& operator=(const HostProcess&) = delete;

  [[nodiscard]] pid_t pid() const { return pid_; }
  // The answer's line.
  std::string ask(const std::string& command);
  void tell(const std::string& command);
  void kill();
  void close_input();
  // Waits for the end, at most `ms`: exit status, 128 + signal, or -1 while it still runs.
  int wait(int ms);
  [[nodiscard]] std::string socket_path() const { return socket_; }
  // What it wrote to stderr: to be nothing. Reads to the end: after wait().
  std::string errors();

 private:
  std::string read_line();
  pid_t pid_ = -1;
  int input_ = -1;
  int output_ = -1;
  int errors_ = -1;
  int status_ = -1;
  std::string socket_;
};

// Waits until `condition` holds, at most `ms`.
template <typename Condition>
bool eventually(Condition condition, int ms = 5000) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::milliseconds(ms);
  while (!condition()) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
}

}  // namespace pillion::shim::test
