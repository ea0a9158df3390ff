// SPDX-License-Identifier: Apache-2.0
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "commands/doctor_rows.h"

namespace pillion::commands {
namespace {

DoctorRow capability_row(const inject::AttachRights& rights) {
  if (inject::has_capability(rights.own.effective, inject::kCapSysPtrace))
    return {"CAP_SYS_PTRACE", "there", RowState::ok, {}};
  return {"CAP_SYS_PTRACE", "not there", RowState::degraded,
          "inject reaches only processes of the same user with no more capabilities than pillion"};
}

DoctorRow yama_row(const inject::AttachRights& rights) {
  const bool capable = inject::has_capability(rights.own.effective, inject::kCapSysPtrace);
  const std::string finding = "ptrace_scope is " + std::to_string(rights.yama_level);
  if (rights.yama_level < 0) return {"Yama", "not in this kernel", RowState::ok, {}};
  if (rights.yama_level == 0 || (capable && rights.yama_level < 3))
    return {"Yama", finding, RowState::ok, {}};
  if (rights.yama_level >= 3)
    return {"Yama", finding, RowState::missing,
            "inject works on no process until the node restarts with less"};
  return {"Yama", finding, RowState::missing, "inject needs CAP_SYS_PTRACE, or ptrace_scope 0 on the node"};
}

DoctorRow own_calls_row() {
  const auto answer = inject::probe_attach(static_cast<std::uint32_t>(::getpid()));
  if (answer.forbidden_call == nullptr)
    return {"system calls", "pillion may call ptrace and pidfd_getfd", RowState::ok, {}};
  return {"system calls", std::string("pillion may not call ") + answer.forbidden_call, RowState::missing,
          "inject needs it: Linux 5.6 or newer, and a seccomp profile that allows it"};
}

// Kubernetes' pause, or whatever else is first in a shared namespace; alone in its container pillion is it.
DoctorRow processes_row() {
  const auto first = inject::ProcessFolder::open("/proc", 1);
  const auto status = first ? first->read("status") : tl::make_unexpected(first.error());
  if (!status)
    return {"PID namespace", "/proc shows no process 1", RowState::missing,
            "a /proc that is not hidden (hidepid)"};
  const bool alone = inject::parse_status(*status).name == "pillion";
  if (!alone) return {"PID namespace", "pillion sees other programs' processes", RowState::ok, {}};
  return {"PID namespace", "pillion's own: it sees no other program", RowState::missing,
          "shareProcessNamespace: true in the pod"};
}

DoctorRow socket_directory_row(const std::string& path) {
  struct stat status {};
  const auto row = [&path](std::string finding, RowState state, std::string remedy) {
    return DoctorRow{"socket directory", path + " " + finding, state, std::move(remedy)};
  };
  if (::stat(path.c_str(), &status) != 0)
    return row(
        std::string("cannot be found: ") + std::strerror(errno), RowState::degraded,
        "only injected shims are reached; mount the folder that the workload sees as PILLION_SOCKET_DIR");
  if (!S_ISDIR(status.st_mode))
    return row("is not a folder", RowState::missing, "name a folder with -socket-dir");
  if (::access(path.c_str(), R_OK | X_OK) != 0)
    return row("may not be read by pillion", RowState::missing,
               "mode 0777, as an emptyDir has, or the same user");
  char mode[8];
  std::snprintf(mode, sizeof(mode), "%04o", status.st_mode & 07777u);
  if ((status.st_mode & 0002) == 0)
    return row(std::string("has mode ") + mode + " and user " + std::to_string(status.st_uid),
               RowState::degraded, "workloads of other users have no shim; mode 0777 lets them in");
  return row(std::string("has mode ") + mode, RowState::ok, {});
}

}  // namespace

DoctorRows equipment_rows(const Equipment& equipment) {
  DoctorRows rows;
  const auto own = inject::ProcessFolder::open("/proc", static_cast<std::uint32_t>(::getpid()));
  if (own) {
    const inject::AttachRights rights = inject::read_rights("/proc", *own);
    rows.push_back(capability_row(rights));
    rows.push_back(yama_row(rights));
  }
  rows.push_back(own_calls_row());
  rows.push_back(processes_row());
  rows.push_back(socket_directory_row(equipment.socket_directory));
  if (equipment.shim.empty()) {
    rows.push_back({"shim to load", "none", RowState::missing, "inject needs libpillion.so beside pillion"});
  } else {
    rows.push_back({"shim to load", equipment.shim, RowState::ok, {}});
  }
  if (equipment.cupti.empty()) {
    rows.push_back({"CUPTI to bring along", "none", RowState::degraded,
                    "only programs that have one in their library path can be profiled"});
  } else {
    rows.push_back({"CUPTI to bring along",
                    std::to_string(equipment.cupti.size()) + " beside the shim",
                    RowState::ok,
                    {}});
  }
  return rows;
}

}  // namespace pillion::commands
