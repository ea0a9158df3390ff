// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <tl/expected.hpp>

namespace pillion::inject {

// How the shim's file reaches the target.
enum class Delivery : std::uint8_t {
  memfd,  // a memory file of the target's own, loaded as /proc/thread-self/fd/N
  file  // a copy in Examination::file_directory, removed once it is loaded: where it may make no memory file
};

// Addresses in the target's memory; 0 where a function is not there (only the optional ones may be 0).
struct TargetFunctions {
  std::uint64_t pthread_create = 0;
  std::uint64_t pthread_detach = 0;  // optional
  std::uint64_t dlopen = 0;
  std::uint32_t dlopen_flag = 0;  // to be or-ed to RTLD_NOW: 0x80000000 where dlopen is __libc_dlopen_mode
  std::uint64_t dlerror = 0;      // optional: __libc_dlopen_mode has none
  std::uint64_t munmap = 0;
  // The 0f 05 within libc's function syscall(): what follows it comes to a `ret` with the stack as it was,
  // whatever the call returned. A thread whose tracer dies in the middle goes on from there by itself.
  std::uint64_t syscall_instruction = 0;
  // "mov $15,%rax; syscall" (48 c7 c0 0f 00 00 00 0f 05), libc's own way back from a signal handler.
  std::uint64_t sigreturn = 0;
};

// A shim that is in the process already, however it came there.
struct ResidentShim {
  std::string path;    // as the process's maps name it
  std::string socket;  // as the process named it, in its own root; empty: it has none now
};

// What one look at a process found: everything that an injection needs to know beforehand, and what may have
// changed by the time it begins (pid and start_time tell the process from a later one with its pid).
struct Examination {
  std::uint32_t pid = 0;            // as this process's /proc names it
  std::uint64_t start_time = 0;     // clock ticks since boot, field 22 of /proc/PID/stat
  std::uint32_t live_thread = 0;    // one that has not ended: pid itself, unless the leader has
  std::uint32_t inner_pid = 0;      // in the target's own PID namespace (last of NSpid)
  std::uint64_t pid_namespace = 0;  // inode of /proc/PID/ns/pid
  std::uint32_t uid = 0;            // effective
  std::string comm;                 // printable
  std::string exe;                  // printable

  TargetFunctions functions;

  Delivery delivery = Delivery::memfd;
  std::string delivery_reason;  // why not by memfd, for people; empty for memfd
  std::string file_directory;   // in the target's own root; where a copy may be put and executed from.
                                // Also set for Delivery::memfd where there is one: the second choice

  bool own_mount_namespace = true;    // the same as this process's
  bool own_network_namespace = true;  // the same as this process's
  std::uint32_t seccomp_mode = 0;     // "Seccomp:" of /proc/PID/status: 0 none, 1 strict, 2 filter
  bool no_new_privileges = false;
  bool uses_cuda = false;                // libcuda.so.1 is mapped
  std::string mapped_cupti;              // path of a mapped CUPTI library; empty: none
  std::optional<ResidentShim> resident;  // set: there is nothing to inject
};

enum class RefusalReason : std::uint8_t {
  no_process,  // there is none with that pid, or it is ending
  kernel_thread,
  not_a_target,        // for now: stopped, or in its parent's memory between vfork and exec
  never_a_target,      // a thread, pillion itself, or a program with more rights than who started it
  not_permitted,       // hint names the capability or the setting
  traced,              // a debugger has it
  injecting,           // another injection has it, for some milliseconds
  other_architecture,  // 32 bits, or not x86-64
  static_program,
  musl,
  old_glibc,    // lacks what the shim needs
  no_loader,    // no dlopen, no pthread_create or no `syscall` instruction was found
  no_cuda,      // unless forced
  no_delivery,  // neither /proc nor a directory that may hold the library
  seccomp,      // a filter forbids what an injection needs
  failed        // the examination itself: reason says what
};

// Why a process cannot be injected into.
struct Refusal {
  RefusalReason kind = RefusalReason::failed;
  std::string reason;  // "process 123 (python3) is statically linked"
  std::string hint;    // what a person can do
  [[nodiscard]] std::string message() const { return hint.empty() ? reason : reason + ": " + hint; }
};

struct ExaminationOptions {
  bool force = false;  // also a process that has not loaded libcuda
};

// Looks at /proc/PID and the target's ELF files; stops nothing, changes nothing, asks nothing of the target.
// A resident shim is no refusal: Examination::resident says so. Thread-safe; some milliseconds.
[[nodiscard]] tl::expected<Examination, Refusal> examine(std::uint32_t pid,
                                                         const ExaminationOptions& options = {});

}  // namespace pillion::inject
