// SPDX-License-Identifier: Apache-2.0
#include "inject/delivery_path.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace pillion::inject {
namespace {

constexpr const char* kDirectories[] = {"/tmp", "/var/tmp", "/dev/shm", "/run"};

// A folder below `root`, with links followed as the process itself would.
UniqueFd open_in_root(int root, const char* path) {
  open_how how{};
  how.flags = O_PATH | O_DIRECTORY | O_CLOEXEC;
  how.resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS;
  return UniqueFd(static_cast<int>(::syscall(SYS_openat2, root, path, &how, sizeof(how))));
}

std::optional<std::string> read_file(int folder, const std::string& name) {
  const UniqueFd file(::openat(folder, name.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
  char text[4'096];
  const ssize_t got = file.valid() ? ::read(file.get(), text, sizeof(text)) : -1;
  if (got <= 0) return std::nullopt;
  return std::string(text, static_cast<std::size_t>(got));
}

// Whether the /proc in its root is one in which the process finds itself. Its mount may be that of another
// PID namespace, where /proc/self leads nowhere.
std::string why_not_memfd(int root, const ProcessStatus& status, std::uint64_t start_time) {
  const UniqueFd proc = open_in_root(root, "proc");
  struct statfs system {};
  if (!proc.valid() || ::fstatfs(proc.get(), &system) != 0 || system.f_type != PROC_SUPER_MAGIC)
    return "there is no /proc in its root";
  for (const auto pid : status.pids) {
    const auto text = read_file(proc.get(), std::to_string(pid) + "/stat");
    const auto stat = text ? parse_stat(*text) : std::nullopt;
    if (stat && stat->start_time == start_time) return {};
  }
  return "the /proc in its root is that of another PID namespace";
}

// In the folders that the loader looks into, with that of the C library for systems that have others. An
// entry in its cache or in LD_LIBRARY_PATH is not looked at: these libraries are libc's own, and lie beside
// it.
bool has_library(int root, const std::string& name, const std::string& libc_path) {
  std::string folders[] = {libc_path.substr(0, libc_path.rfind('/')),
                           "/lib/x86_64-linux-gnu",
                           "/usr/lib/x86_64-linux-gnu",
                           "/lib64",
                           "/usr/lib64",
                           "/lib",
                           "/usr/lib"};
  for (const auto& path : folders) {
    const UniqueFd folder = open_in_root(root, path.c_str());
    if (folder.valid() && ::faccessat(folder.get(), name.c_str(), F_OK, AT_SYMLINK_NOFOLLOW) == 0)
      return true;
  }
  return false;
}

bool may_hold_file(int folder, const ProcessStatus& target) {
  struct stat entry {};
  struct statvfs system {};
  if (::fstat(folder, &entry) != 0 || ::fstatvfs(folder, &system) != 0) return false;
  if ((system.f_flag & (ST_NOEXEC | ST_RDONLY)) != 0) return false;
  // Ours to write, by a path because descriptors of O_PATH have no access check of their own.
  const std::string path = "/proc/self/fd/" + std::to_string(folder);
  if (::faccessat(AT_FDCWD, path.c_str(), W_OK | X_OK, AT_EACCESS) != 0) return false;
  const bool others_pass = (entry.st_mode & S_IXOTH) != 0;
  const bool owner_passes = (entry.st_mode & S_IXUSR) != 0 && entry.st_uid == target.uids[3];
  return others_pass || owner_passes;
}

}  // namespace

DeliveryPath look_for_delivery(const ProcessFolder& folder, std::uint32_t thread, const ProcessStatus& status,
                               std::uint64_t start_time, const TargetProgram& program) {
  DeliveryPath path;
  const std::string name = "task/" + std::to_string(thread) + "/root";
  const UniqueFd root(::openat(folder.fd(), name.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (!root.valid()) {
    path.no_memfd = std::string("its root cannot be opened: ") + std::strerror(errno);
    return path;
  }
  path.no_memfd = why_not_memfd(root.get(), status, start_time);
  path.memfd = path.no_memfd.empty();
  for (const auto& needed : program.not_loaded) {
    if (!has_library(root.get(), needed, program.c_library_path)) path.lacking = needed;
  }
  for (const char* directory : kDirectories) {
    const UniqueFd opened = open_in_root(root.get(), directory);
    if (!opened.valid() || !may_hold_file(opened.get(), status)) continue;
    path.file_directory = directory;
    break;
  }
  return path;
}

std::optional<Refusal> judge_delivery(const std::string& who, const DeliveryPath& path) {
  // Not only for the way of the file: the shim tells itself apart, and finds stacks and libraries, by its
  // /proc.
  if (!path.memfd)
    return Refusal{RefusalReason::no_delivery, path.no_memfd + ", and the shim cannot do without: " + who,
                   "mount /proc into its root"};
  if (!path.lacking.empty())
    return Refusal{
        RefusalReason::no_delivery,
        path.lacking + ", which the shim asks for, is neither loaded by " + who + " nor in its root",
        "add it to its root; it is a part of glibc"};
  return std::nullopt;
}

}  // namespace pillion::inject
