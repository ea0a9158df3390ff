// SPDX-License-Identifier: Apache-2.0
#include "inject/target_look.h"

#include <elf.h>
#include <fcntl.h>
#include <linux/kcmp.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/printable.h"
#include "inject/initial_stack.h"
#include "inject/other_injection.h"
#include "inject/shim_socket.h"
#include "inject/wait_channel.h"

namespace pillion::inject {
namespace {

constexpr std::size_t kThreadsMax = 65'536;

std::string name_of(std::uint32_t pid, const ProcessStatus& status) {
  return "process " + std::to_string(pid) + " (" + printable(status.name) + ")";
}

// A process that is `pid` to itself, but not to us: the likely mistake behind a pid that is not there.
std::string hint_for_inner_pid(const std::string& proc_root, std::uint32_t pid) {
  for (const auto other : numbered_entries(AT_FDCWD, proc_root.c_str())) {
    const auto folder = ProcessFolder::open(proc_root, other);
    const auto text = folder ? folder->read("status") : tl::make_unexpected(folder.error());
    if (!text) continue;
    const ProcessStatus status = parse_status(*text);
    if (status.pids.size() > 1 && status.pids.back() == pid)
      return name_of(other, status) + " is " + std::to_string(pid) +
             " in a PID namespace of its own: was that meant? -pid " + std::to_string(other);
  }
  return "pids are those that pillion sees in its own /proc: in a pod both containers need "
         "shareProcessNamespace: true";
}

Refusal no_process(const LookOptions& options, std::uint32_t pid) {
  return {RefusalReason::no_process, "there is no process " + std::to_string(pid),
          hint_for_inner_pid(options.proc_root, pid)};
}

// The threads of a process that have not ended, with what counts about all of them.
struct LiveThreads {
  std::uint32_t any = 0;     // 0: none
  bool all_stopped = true;   // by SIGSTOP and its like
  std::uint32_t tracer = 0;  // of any thread
};

LiveThreads look_at_threads(const ProcessFolder& folder) {
  LiveThreads live;
  std::size_t seen = 0;
  for (const auto thread : folder.threads()) {
    const auto text = folder.read("task/" + std::to_string(thread) + "/status");
    if (!text || ++seen > kThreadsMax) continue;
    const ProcessStatus status = parse_status(*text);
    if (status.state == 'Z' || status.state == 'X') continue;
    if (live.any == 0) live.any = thread;
    if (status.state != 'T') live.all_stopped = false;
    if (status.tracer != 0) live.tracer = status.tracer;
    // Traced by one whom this PID namespace cannot see.
    if (status.state == 't' && live.tracer == 0) live.tracer = UINT32_MAX;
  }
  return live;
}

std::optional<Refusal> judge_process(std::uint32_t pid, const ProcessStatus& status, const ProcessStat& stat,
                                     const LiveThreads& live) {
  const std::string who = name_of(pid, status);
  const std::string number = std::to_string(pid);
  if (stat.kernel_thread)
    return Refusal{RefusalReason::kernel_thread, who + " is a thread of the kernel",
                   "name a program's process"};
  if (status.thread_group != pid)
    return Refusal{RefusalReason::never_a_target,
                   number + " is a thread of process " + std::to_string(status.thread_group),
                   "-pid " + std::to_string(status.thread_group)};
  if (pid == static_cast<std::uint32_t>(::getpid()))
    return Refusal{RefusalReason::never_a_target, "process " + number + " is pillion itself",
                   "name another process"};
  if (live.any == 0) return Refusal{RefusalReason::no_process, who + " has ended", "name one that runs"};
  if (live.all_stopped)
    return Refusal{RefusalReason::not_a_target,
                   who + " is stopped, and none of its threads can load anything",
                   "let it go on: kill -CONT " + number};
  return std::nullopt;
}

std::optional<Refusal> judge_tracer(const std::string& proc_root, const std::string& who,
                                    std::uint32_t tracer) {
  if (tracer == 0) return std::nullopt;
  if (tracer != UINT32_MAX && is_injection_helper(proc_root, tracer))
    return Refusal{
        RefusalReason::injecting,
        "another injection into " + who + " is in progress, by " + injector_behind(proc_root, tracer),
        "wait until it has ended, 30 s at most, and look again"};
  std::string by = "by a process that pillion cannot see";
  if (tracer != UINT32_MAX) {
    const auto folder = ProcessFolder::open(proc_root, tracer);
    const auto text = folder ? folder->read("status").value_or("") : std::string();
    by = "by " + name_of(tracer, parse_status(text));
  }
  return Refusal{RefusalReason::traced, who + " is traced " + by + ", and a process has one tracer at a time",
                 "end the debugger or tracer (gdb, strace) first"};
}

// The right to trace opens what the kernel guards by it; some files in /proc are their owner's besides, and
// for those there is another way but on a kernel without wait channels.
std::optional<Refusal> judge_files(const std::string& who, const ProcessFolder& folder, std::uint32_t thread,
                                   const ProcessStatus& status, const AttachRights& rights) {
  const std::string name = "task/" + std::to_string(thread) + "/syscall";
  if (::faccessat(folder.fd(), name.c_str(), R_OK, AT_EACCESS) == 0 || errno != EACCES) return std::nullopt;
  if (has_wait_channels(folder)) return std::nullopt;
  return Refusal{RefusalReason::not_permitted,
                 "what the threads of " + who +
                     " sleep in this kernel tells only their user, and pillion runs as user " +
                     std::to_string(rights.own.uids[1]) + " without CAP_DAC_READ_SEARCH",
                 "run pillion as user " + std::to_string(status.uids[1]) +
                     ", or add CAP_DAC_READ_SEARCH to CAP_SYS_PTRACE"};
}

// AT_SECURE: the program was started with more rights than who started it had.
bool runs_secure(const ProcessFolder& folder, std::uint32_t thread) {
  const auto text = folder.read("task/" + std::to_string(thread) + "/auxv");
  if (!text) {
    const auto stat = parse_stat(folder.read("task/" + std::to_string(thread) + "/stat").value_or(""));
    return stat && secure_by_initial_stack(TargetMemory(thread), stat->start_stack).value_or(false);
  }
  for (std::size_t at = 0; at + sizeof(Elf64_auxv_t) <= text->size(); at += sizeof(Elf64_auxv_t)) {
    Elf64_auxv_t entry;
    std::memcpy(&entry, text->data() + at, sizeof(entry));
    if (entry.a_type == AT_SECURE) return entry.a_un.a_val != 0;
  }
  return false;
}

// The shim is inert in such a program.
std::optional<Refusal> judge_security(const std::string& who, const ProcessFolder& folder,
                                      std::uint32_t thread) {
  if (!runs_secure(folder, thread)) return std::nullopt;
  return Refusal{
      RefusalReason::never_a_target,
      who +
          " runs with more rights than who started it (setuid or file capabilities), and the shim stays "
          "inert there",
      "start it as the user whose rights it needs"};
}

// A child between vfork and exec runs in its parent's memory: what is loaded into it stays in the parent.
std::optional<Refusal> judge_memory(const std::string& who, std::uint32_t pid, const ProcessStatus& status) {
  if (status.parent == 0 || ::syscall(SYS_kcmp, pid, status.parent, KCMP_VM, 0, 0) != 0) return std::nullopt;
  return Refusal{RefusalReason::not_a_target,
                 who + " runs in the memory of its parent " + std::to_string(status.parent) +
                     " (it is between vfork and exec)",
                 "try again once it has called exec, or -pid " + std::to_string(status.parent)};
}

void describe(const ProcessFolder& folder, const ProcessStatus& status, std::uint32_t thread,
              Examination& examination) {
  const std::string task = "task/" + std::to_string(thread) + "/";
  examination.inner_pid = status.pids.empty() ? examination.pid : status.pids.back();
  examination.uid = status.uids[1];
  examination.comm = printable(status.name);
  examination.exe = printable(folder.link(task + "exe").value_or(""));
  examination.no_new_privileges = status.no_new_privileges;
  examination.pid_namespace = folder.name_space("pid");
}

bool same_name_space(const ProcessFolder& target, const std::string& proc_root, std::uint32_t thread,
                     const std::string& kind) {
  const auto own = ProcessFolder::open(proc_root, static_cast<std::uint32_t>(::getpid()));
  const auto theirs = target.link("task/" + std::to_string(thread) + "/ns/" + kind);
  const auto ours = own ? own->link("ns/" + kind) : tl::make_unexpected(own.error());
  return ours && theirs && *ours == *theirs;
}

// What needs the right to look inside.
void look_inside(const std::string& who, const ProcessFolder& folder, const ProcessStatus& status,
                 std::uint32_t thread, const LookOptions& options, TargetLook& look) {
  Examination& examination = look.examination;
  examination.own_mount_namespace = same_name_space(folder, options.proc_root, thread, "mnt");
  examination.own_network_namespace = same_name_space(folder, options.proc_root, thread, "net");
  if (!look.process) look.process = judge_memory(who, examination.pid, status);

  look.found = look_at_program(who, folder, thread);
  look.program = look.found.refusal;
  // The vector that is read here has another form in a 32-bit program.
  const bool readable = !look.program || look.program->kind != RefusalReason::other_architecture;
  if (!look.process && readable) look.process = judge_security(who, folder, thread);
  examination.functions = look.found.functions;
  examination.uses_cuda = !look.found.cuda_library.empty();
  examination.mapped_cupti = look.found.cupti_library;
  if (!look.found.shim_library.empty())
    examination.resident =
        ResidentShim{look.found.shim_library,
                     find_shim_socket(folder, thread, examination.inner_pid, examination.start_time)};
  if (!examination.uses_cuda)
    look.cuda = Refusal{
        RefusalReason::no_cuda, who + " does not use CUDA: libcuda is not loaded",
        "`pillion inject -force` loads the shim all the same, which then waits for its first CUDA call"};

  const DeliveryPath path = look_for_delivery(folder, thread, status, examination.start_time, look.found);
  examination.delivery = path.memfd ? Delivery::memfd : Delivery::file;
  examination.delivery_reason = path.no_memfd;
  examination.file_directory = path.file_directory;
  look.delivery = judge_delivery(who, path);
}

}  // namespace

TargetLook look_at_target(std::uint32_t pid, const LookOptions& options) {
  TargetLook look;
  look.examination.pid = pid;
  const auto folder = ProcessFolder::open(options.proc_root, pid);
  const auto status_text = folder ? folder->read("status") : tl::make_unexpected(folder.error());
  const auto stat_text = folder ? folder->read("stat") : tl::make_unexpected(folder.error());
  const auto stat = stat_text ? parse_stat(*stat_text) : std::nullopt;
  if (!status_text || !stat) {
    look.process = no_process(options, pid);
    return look;
  }
  const ProcessStatus status = parse_status(*status_text);
  const std::string who = name_of(pid, status);
  const LiveThreads live = look_at_threads(*folder);
  look.examination.start_time = stat->start_time;
  look.examination.live_thread = live.any;
  describe(*folder, status, live.any, look.examination);
  look.process = judge_process(pid, status, *stat, live);
  if (look.process && (live.any == 0 || !live.all_stopped)) return look;

  look.tracer = judge_tracer(options.proc_root, who, live.tracer);
  look.filters = look_at_filters(options.proc_root, *folder, status);
  look.examination.seccomp_mode = look.filters.mode;
  look.seccomp = judge_filters(who, look.filters);
  look.rights = read_rights(options.proc_root, *folder);
  look.access = explain_access(who, options.probe(pid), status, look.rights);
  if (!look.access) look.access = judge_files(who, *folder, live.any, status, look.rights);
  if (!look.access) look_inside(who, *folder, status, live.any, options, look);
  // It may have ended meanwhile, and what was read then is nothing's. Its memory goes before its threads are
  // seen to.
  const auto still = look_at_threads(*folder).any;
  const auto maps = folder->read("task/" + std::to_string(still) + "/maps");
  if (still == 0 || (!look.access && maps && maps->empty())) {
    look.process = Refusal{RefusalReason::no_process, who + " has ended", "name one that runs"};
    look.examination.resident.reset();
  }
  return look;
}

std::optional<Refusal> TargetLook::refusal(const ExaminationOptions& options) const {
  if (process) return process;
  if (examination.resident) return std::nullopt;
  for (const auto* obstacle : {&tracer, &access, &program}) {
    if (*obstacle) return *obstacle;
  }
  if (!options.force && cuda) return cuda;
  // Strict mode ends the process for certain; no wish changes that.
  if (seccomp && (!options.force || filters.mode == 1)) return seccomp;
  return delivery;
}

}  // namespace pillion::inject
