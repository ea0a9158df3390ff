// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "inject/examination.h"
#include "inject/process_folder.h"

namespace pillion::inject {

// The kernel's own answer to "may this process attach to that one?".
struct AttachAnswer {
  bool granted = false;
  // A system call that an injection needs and that our own seccomp filter forbids; null: none.
  const char* forbidden_call = nullptr;
};
using AttachProbe = std::function<AttachAnswer(std::uint32_t pid)>;

// Asks by pidfd_getfd for a descriptor that no process has: the kernel checks the right first, the one that
// ptrace needs (PTRACE_MODE_ATTACH_REALCREDS, with all security modules), and the process notices nothing.
[[nodiscard]] AttachAnswer probe_attach(std::uint32_t pid);

// What decides about it, for the words of a refusal.
struct AttachRights {
  ProcessStatus own;
  int yama_level = -1;  // -1: the kernel has no Yama
  bool other_user_namespace = false;
  std::string security_label;  // of the target, by AppArmor or SELinux; empty: unconfined, or none
  bool not_dumpable = false;   // the kernel hides it from its own user: setuid, or by its own wish
};
[[nodiscard]] AttachRights read_rights(const std::string& proc_root, const ProcessFolder& target);

// Why `answer` is no, or nothing when it is yes.
[[nodiscard]] std::optional<Refusal> explain_access(const std::string& who, const AttachAnswer& answer,
                                                    const ProcessStatus& target, const AttachRights& rights);

// "CAP_SYS_PTRACE, CAP_KILL and 3 more"
[[nodiscard]] std::string capability_names(std::uint64_t set);

inline constexpr unsigned kCapSysPtrace = 19;
[[nodiscard]] inline bool has_capability(std::uint64_t set, unsigned number) {
  return (set >> number & 1) != 0;
}

}  // namespace pillion::inject
