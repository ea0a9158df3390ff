// SPDX-License-Identifier: Apache-2.0
#include "inject/other_injection.h"

#include <fcntl.h>
#include <unistd.h>

#include "base/printable.h"
#include "inject/process_folder.h"

namespace pillion::inject {
namespace {

ProcessStatus status_of(const std::string& proc_root, std::uint32_t pid) {
  const auto folder = ProcessFolder::open(proc_root, pid);
  return parse_status(folder ? folder->read("status").value_or("") : std::string());
}

// A pidfd says whose it is in its fdinfo (Linux 5.4).
bool holds_open(const std::string& proc_root, std::uint32_t helper, std::uint32_t pid) {
  const auto folder = ProcessFolder::open(proc_root, helper);
  if (!folder) return false;
  const std::string wanted = "\nPid:\t" + std::to_string(pid) + "\n";
  for (const auto number : numbered_entries(folder->fd(), "fdinfo")) {
    const auto text = folder->read("fdinfo/" + std::to_string(number));
    if (text && text->find(wanted) != std::string::npos) return true;
  }
  return false;
}

}  // namespace

bool is_injection_helper(const std::string& proc_root, std::uint32_t pid) {
  return status_of(proc_root, pid).name == kHelperName;
}

std::string injector_behind(const std::string& proc_root, std::uint32_t helper) {
  const ProcessStatus own = status_of(proc_root, helper);
  const ProcessStatus parent = own.parent == 0 ? ProcessStatus{} : status_of(proc_root, own.parent);
  const bool seen = !parent.name.empty();
  return "process " + std::to_string(seen ? own.parent : helper) + " (" +
         printable(seen ? parent.name : own.name) + ") of user " + std::to_string(own.uids[1]);
}

std::string find_other_injector(const std::string& proc_root, std::uint32_t pid) {
  for (const auto other : numbered_entries(AT_FDCWD, proc_root.c_str())) {
    if (other == static_cast<std::uint32_t>(::getpid()) || !is_injection_helper(proc_root, other)) continue;
    if (holds_open(proc_root, other, pid)) return injector_behind(proc_root, other);
  }
  return {};
}

}  // namespace pillion::inject
