// SPDX-License-Identifier: Apache-2.0
#include "inject/attach_access.h"

#include <fcntl.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <climits>
#include <cstdio>

#include "base/printable.h"

namespace pillion::inject {
namespace {

constexpr std::array<const char*, 41> kCapabilities = {"CAP_CHOWN",
                                                       "CAP_DAC_OVERRIDE",
                                                       "CAP_DAC_READ_SEARCH",
                                                       "CAP_FOWNER",
                                                       "CAP_FSETID",
                                                       "CAP_KILL",
                                                       "CAP_SETGID",
                                                       "CAP_SETUID",
                                                       "CAP_SETPCAP",
                                                       "CAP_LINUX_IMMUTABLE",
                                                       "CAP_NET_BIND_SERVICE",
                                                       "CAP_NET_BROADCAST",
                                                       "CAP_NET_ADMIN",
                                                       "CAP_NET_RAW",
                                                       "CAP_IPC_LOCK",
                                                       "CAP_IPC_OWNER",
                                                       "CAP_SYS_MODULE",
                                                       "CAP_SYS_RAWIO",
                                                       "CAP_SYS_CHROOT",
                                                       "CAP_SYS_PTRACE",
                                                       "CAP_SYS_PACCT",
                                                       "CAP_SYS_ADMIN",
                                                       "CAP_SYS_BOOT",
                                                       "CAP_SYS_NICE",
                                                       "CAP_SYS_RESOURCE",
                                                       "CAP_SYS_TIME",
                                                       "CAP_SYS_TTY_CONFIG",
                                                       "CAP_MKNOD",
                                                       "CAP_LEASE",
                                                       "CAP_AUDIT_WRITE",
                                                       "CAP_AUDIT_CONTROL",
                                                       "CAP_SETFCAP",
                                                       "CAP_MAC_OVERRIDE",
                                                       "CAP_MAC_ADMIN",
                                                       "CAP_SYSLOG",
                                                       "CAP_WAKE_ALARM",
                                                       "CAP_BLOCK_SUSPEND",
                                                       "CAP_AUDIT_READ",
                                                       "CAP_PERFMON",
                                                       "CAP_BPF",
                                                       "CAP_CHECKPOINT_RESTORE"};
constexpr std::size_t kNamesMax = 4;

constexpr const char* kStartWithShim =
    "start the program with CUDA_INJECTION64_PATH naming libpillion.so instead";
constexpr const char* kGiveCapability =
    "give pillion CAP_SYS_PTRACE (in a pod: securityContext.capabilities.add: [\"SYS_PTRACE\"])";

bool same_user(const ProcessStatus& own, const ProcessStatus& target) {
  // By the real ids of who asks, against the first three of the target (kernel/ptrace.c).
  for (std::size_t i = 0; i < 3; ++i) {
    if (target.uids[i] != own.uids[0] || target.gids[i] != own.gids[0]) return false;
  }
  return true;
}

std::string user_text(const ProcessStatus& status, std::size_t which) {
  return "user " + std::to_string(status.uids[which]) + ", group " + std::to_string(status.gids[which]);
}

int read_yama(const std::string& proc_root) {
  const std::string path = proc_root + "/sys/kernel/yama/ptrace_scope";
  int level = -1;
  if (std::FILE* file = std::fopen(path.c_str(), "re")) {
    if (std::fscanf(file, "%d", &level) != 1) level = -1;
    std::fclose(file);
  }
  return level;
}

Refusal not_permitted(std::string reason, std::string hint) {
  return {RefusalReason::not_permitted, std::move(reason), std::move(hint)};
}

// CAP_SYS_PTRACE is not there, so that everything else counts.
Refusal explain_without_capability(const std::string& who, const ProcessStatus& target,
                                   const AttachRights& rights) {
  const std::uint64_t more = target.permitted & ~rights.own.permitted;
  std::string hint = kGiveCapability;
  if (!same_user(rights.own, target)) {
    if (more == 0) hint += ", or run it as " + user_text(target, 1);
    return not_permitted(who + " runs as " + user_text(target, 1) + ", pillion as " +
                             user_text(rights.own, 0) + " without CAP_SYS_PTRACE",
                         hint);
  }
  if (more != 0)
    return not_permitted(who + " has capabilities that pillion has not (" + capability_names(more) +
                             "), and pillion lacks CAP_SYS_PTRACE",
                         hint + ", or run it with the same capabilities");
  if (rights.other_user_namespace)
    return not_permitted(who + " lives in another user namespace, and pillion lacks CAP_SYS_PTRACE there",
                         hint);
  if (rights.yama_level == 1)
    return not_permitted(
        "Yama (kernel.yama.ptrace_scope = 1) lets pillion, which lacks CAP_SYS_PTRACE, attach "
        "to its own children only",
        hint + ", or set kernel.yama.ptrace_scope to 0 on the node");
  if (rights.yama_level == 2)
    return not_permitted("Yama (kernel.yama.ptrace_scope = 2) asks for CAP_SYS_PTRACE, which pillion lacks",
                         hint);
  if (rights.not_dumpable)
    return not_permitted(who + " has made itself undumpable (or is setuid), and pillion lacks CAP_SYS_PTRACE",
                         hint);
  return not_permitted("the kernel does not let pillion attach to " + who + ", and CAP_SYS_PTRACE is lacking",
                       hint);
}

}  // namespace

AttachAnswer probe_attach(std::uint32_t pid) {
  const auto may_attach = [](std::uint32_t whom) {
    const UniqueFd process(static_cast<int>(::syscall(SYS_pidfd_open, whom, 0)));
    if (!process.valid() || ::syscall(SYS_pidfd_getfd, process.get(), INT_MAX, 0) >= 0) return false;
    // After the right: ESRCH for a leader that has ended before its threads.
    return errno == EBADF || errno == ESRCH;
  };
  AttachAnswer answer;
  // What is always allowed, and on nobody: any other answer is that of a filter, or of an old kernel.
  if (::ptrace(static_cast<__ptrace_request>(PTRACE_INTERRUPT), INT_MAX, nullptr, nullptr) != 0 &&
      errno != ESRCH)
    answer.forbidden_call = "ptrace";
  if (!may_attach(static_cast<std::uint32_t>(::getpid()))) answer.forbidden_call = "pidfd_getfd";
  answer.granted = answer.forbidden_call == nullptr && may_attach(pid);
  return answer;
}

AttachRights read_rights(const std::string& proc_root, const ProcessFolder& target) {
  AttachRights rights;
  const auto own = ProcessFolder::open(proc_root, static_cast<std::uint32_t>(::getpid()));
  if (own) {
    rights.own = parse_status(own->read("status").value_or(""));
    // The links in ns/ may not be read by those to whom this matters; the maps of ids may.
    const auto ours = own->read("uid_map");
    const auto theirs = target.read("uid_map");
    rights.other_user_namespace = ours && theirs && *ours != *theirs;
  }
  rights.yama_level = read_yama(proc_root);
  std::string label = target.read("attr/current").value_or("");
  while (!label.empty() && (label.back() == '\n' || label.back() == '\0')) label.pop_back();
  if (label != "unconfined") rights.security_label = printable(label);
  struct stat status {};
  const ProcessStatus theirs = parse_status(target.read("status").value_or(""));
  // Not the folder: it is its user's in any case.
  rights.not_dumpable =
      ::fstatat(target.fd(), "status", &status, AT_SYMLINK_NOFOLLOW) == 0 && status.st_uid != theirs.uids[1];
  return rights;
}

std::optional<Refusal> explain_access(const std::string& who, const AttachAnswer& answer,
                                      const ProcessStatus& target, const AttachRights& rights) {
  if (answer.granted) return std::nullopt;
  if (answer.forbidden_call != nullptr)
    return not_permitted(
        std::string("pillion's own seccomp filter, or this kernel, does not let it call ") +
            answer.forbidden_call,
        "use Linux 5.6 or newer and a seccomp profile that allows it (container runtimes' own do "
        "where CAP_SYS_PTRACE is added)");
  if (rights.yama_level == 3)
    return not_permitted("Yama (kernel.yama.ptrace_scope = 3) forbids every attach until the node restarts",
                         kStartWithShim);
  if (!has_capability(rights.own.effective, kCapSysPtrace))
    return explain_without_capability(who, target, rights);
  if (rights.other_user_namespace)
    return not_permitted(
        who + " lives in another user namespace, where pillion's CAP_SYS_PTRACE does not count",
        "run pillion in that user namespace or as root of the node");
  if (!rights.security_label.empty())
    return not_permitted("a security module forbids it, though pillion has CAP_SYS_PTRACE: " + who +
                             " runs under '" + rights.security_label + "'",
                         "allow ptrace from pillion's profile, or run both under the same");
  return not_permitted("the kernel does not let pillion attach to " + who + ", though it has CAP_SYS_PTRACE",
                       "look for a security module's message in the kernel's log");
}

std::string capability_names(std::uint64_t set) {
  std::string text;
  std::size_t named = 0;
  std::size_t more = 0;
  for (unsigned number = 0; number < 64; ++number) {
    if (!has_capability(set, number)) continue;
    if (named == kNamesMax) {
      ++more;
      continue;
    }
    text += (named++ == 0 ? "" : ", ");
    text += number < kCapabilities.size() ? kCapabilities[number] : "capability " + std::to_string(number);
  }
  return more == 0 ? text : text + " and " + std::to_string(more) + " more";
}

}  // namespace pillion::inject
