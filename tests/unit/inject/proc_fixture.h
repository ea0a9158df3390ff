// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <unistd.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>

#include "../discovery/temporary_directory.h"

namespace pillion::inject {

// A process as /proc would show it; the defaults are those of an ordinary one that sleeps.
struct FakeProcess {
  std::uint32_t pid = 0;
  std::string name = "train";
  char state = 'S';
  std::uint32_t thread_group = 0;  // 0: pid
  std::uint32_t parent = 1;
  std::uint32_t tracer = 0;
  std::uint32_t uid = 1000;
  std::string pids = {};  // NSpid; empty: pid
  std::uint64_t capabilities = 0;
  unsigned seccomp_filters = 0;
  unsigned long flags = 0x00400000;
};

// A /proc of a test's own.
class FakeProc {
 public:
  // Its process `pid`, with one thread; `maps` empty: it has none.
  void add(const FakeProcess& process, const std::string& maps = "") {
    const std::string folder = root() + "/" + std::to_string(process.pid);
    const std::string task = folder + "/task/" + std::to_string(process.pid);
    std::filesystem::create_directories(task);
    write(folder + "/status", status(process));
    write(task + "/status", status(process));
    write(folder + "/stat", stat(process));
    write(task + "/maps", maps);
    write(folder + "/uid_map", "0 0 4294967295\n");
  }
  // The one that asks, as the tests' own pid.
  void add_self(std::uint32_t uid, std::uint64_t capabilities) {
    FakeProcess self;
    self.pid = static_cast<std::uint32_t>(::getpid());
    self.name = "pillion";
    self.uid = uid;
    self.capabilities = capabilities;
    add(self);
  }
  void set_yama(int level) {
    std::filesystem::create_directories(root() + "/sys/kernel/yama");
    write(root() + "/sys/kernel/yama/ptrace_scope", std::to_string(level) + "\n");
  }
  static void write(const std::string& path, const std::string& text) { std::ofstream(path) << text; }
  [[nodiscard]] const std::string& root() const { return folder_.path(); }

 private:
  static std::string status(const FakeProcess& process) {
    const std::string pid = std::to_string(process.pid);
    const std::string uid = std::to_string(process.uid);
    char capabilities[17];
    std::snprintf(capabilities, sizeof(capabilities), "%016lx", process.capabilities);
    const std::string ids = uid + "\t" + uid + "\t" + uid + "\t" + uid;
    return "Name:\t" + process.name + "\nState:\t" + process.state + " (any)\nTgid:\t" +
           std::to_string(process.thread_group == 0 ? process.pid : process.thread_group) + "\nPid:\t" + pid +
           "\nPPid:\t" + std::to_string(process.parent) + "\nTracerPid:\t" + std::to_string(process.tracer) +
           "\nUid:\t" + ids + "\nGid:\t" + ids + "\nNSpid:\t" + (process.pids.empty() ? pid : process.pids) +
           "\nCapPrm:\t" + capabilities + "\nCapEff:\t" + capabilities + "\nNoNewPrivs:\t0\nSeccomp:\t" +
           (process.seccomp_filters == 0 ? "0" : "2") + "\nSeccomp_filters:\t" +
           std::to_string(process.seccomp_filters) + "\n";
  }
  static std::string stat(const FakeProcess& process) {
    return std::to_string(process.pid) + " (a) b) " + process.state + " 1 2 3 4 5 " +
           std::to_string(process.flags) + " 10 11 12 13 14 15 16 17 18 19 20 21 4711 23\n";
  }

  TemporaryDirectory folder_;
};

}  // namespace pillion::inject
