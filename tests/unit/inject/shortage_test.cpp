// SPDX-License-Identifier: Apache-2.0
#include "inject/shortage.h"

#include <cerrno>

#include <catch2/catch_test_macros.hpp>

#include "proc_fixture.h"

using namespace pillion::inject;

namespace {

constexpr std::uint32_t kPid = 77;

constexpr const char* kHead =
    "Limit                     Soft Limit           Hard Limit           Units     \n";
constexpr const char* kFiles =
    "Max open files            1024                 4096                 files     \n";
constexpr const char* kSpace =
    "Max address space         123456               unlimited            bytes     \n";
constexpr const char* kFree =
    "Max address space         unlimited            unlimited            bytes     \n";
constexpr const char* kProcesses =
    "Max processes             50                   50                   processes \n";

std::string shortage_with(const std::string& limits, int number) {
  FakeProc proc;
  FakeProcess process;
  process.pid = kPid;
  proc.add(process);
  FakeProc::write(proc.root() + "/77/limits", kHead + limits);
  return shortage(proc.root(), kPid, number);
}

}  // namespace

TEST_CASE("what a process has run out of is named, with its limit and how to raise it") {
  CHECK(shortage_with(std::string(kSpace) + kFiles, EMFILE) ==
        "the process has no file descriptor left: its RLIMIT_NOFILE is 1024; raise it with `prlimit --pid 77 "
        "--nofile=...`");
  CHECK(shortage_with(std::string(kSpace) + kFiles, ENOMEM) ==
        "the process can have no more memory: its RLIMIT_AS is 123456 bytes; raise it with `prlimit --pid 77 "
        "--as=...`");
  CHECK(
      shortage_with(std::string(kProcesses) + kSpace, EAGAIN) ==
      "the process can have no more threads, or no memory for the stack of one: its RLIMIT_NPROC is 50, its "
      "RLIMIT_AS is 123456 bytes; raise it with `prlimit --pid 77 --nproc=... --as=...`; or see pids.max of "
      "its "
      "cgroup");
}

TEST_CASE("where no limit of its own holds, the other places are named") {
  CHECK(shortage_with(kFree, ENOMEM).find("memory cgroup") != std::string::npos);
  CHECK(shortage_with(kFree, EAGAIN).find("pids.max") != std::string::npos);
  CHECK(shortage_with("", ENFILE).find("fs.file-max") != std::string::npos);
  CHECK(shortage_with("Max open files", EMFILE) == "the process has no file descriptor left");
  CHECK(shortage_with(kFiles, EPERM).empty());
  CHECK(shortage("/absent", kPid, EMFILE) == "the process has no file descriptor left");
}
