// SPDX-License-Identifier: Apache-2.0
#include <grp.h>
#include <linux/capability.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <clocale>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <fstream>

#include "adverse.h"

// Who and where the program is: user, root, directory, names, environment, /proc.
namespace adverse {
namespace {

bool set_umask(const std::string&) {
  ::umask(0777);
  return true;
}

bool change_root(const std::string& folder) { return ::chroot(folder.c_str()) == 0 && ::chdir("/") == 0; }
bool change_directory(const std::string& folder) { return ::chdir(folder.c_str()) == 0; }

// For good, as servers do. setresuid() of libc changes every thread, by a signal of libc's own.
bool drop_user(const std::string& text) {
  const auto id = static_cast<unsigned>(std::strtoul(text.c_str(), nullptr, 10));
  return ::setgroups(0, nullptr) == 0 && ::setresgid(id, id, id) == 0 && ::setresuid(id, id, id) == 0;
}

bool drop_capabilities(const std::string&) {
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  const __user_cap_data_struct none[2] = {};
  return ::syscall(SYS_capset, &header, none) == 0;
}

bool not_dumpable(const std::string&) { return ::prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) == 0; }
bool no_new_privileges(const std::string&) { return ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0; }
bool clear_environment(const std::string&) { return ::clearenv() == 0; }
bool rename_thread(const std::string& name) { return ::prctl(PR_SET_NAME, name.c_str()) == 0; }

bool change_locale(const std::string& zone) {
  if (::setenv("TZ", zone.c_str(), 1) != 0) return false;
  ::tzset();
  return std::setlocale(LC_ALL, "C.UTF-8") != nullptr;
}

std::string link_text(const std::string& path) {
  char text[128];
  const ssize_t length = ::readlink(path.c_str(), text, sizeof text);
  return {text, static_cast<std::size_t>(std::max<ssize_t>(length, 0))};
}

// Whether what is mounted on /proc would be on the /proc of whoever started this program, too: it shares the
// mount namespace, or what is mounted there is passed on to others.
bool proc_is_shared() {
  const std::string own = link_text("/proc/self/ns/mnt");
  const std::string parents = link_text("/proc/" + std::to_string(::getppid()) + "/ns/mnt");
  if (own.empty() || parents.empty() || own == parents) return true;
  std::ifstream mounts("/proc/self/mountinfo");
  bool passed_on = true;
  for (std::string line; std::getline(mounts, line);) {
    // Fields: id, parent, device, root, mount point, options, tags ("shared:1") up to a "-". The last one is
    // on top.
    if (line.find(" /proc ") != std::string::npos) passed_on = line.find(" shared:") != std::string::npos;
  }
  return passed_on;
}

bool mount_on_proc(const char* type, const char* options) {
  if (proc_is_shared()) {
    std::fputs("adverse: /proc is not this program's own: start it under `unshare --mount`\n", stderr);
    return false;
  }
  return ::mount(type, "/proc", type, 0, options) == 0;
}

bool hide_proc(const std::string&) { return mount_on_proc("tmpfs", nullptr); }
bool hide_other_pids(const std::string&) { return mount_on_proc("proc", "hidepid=2"); }

constexpr Action kActions[] = {
    {"umask", set_umask},
    {"chroot", change_root},
    {"chdir", change_directory},
    {"drop_user", drop_user},
    {"drop_capabilities", drop_capabilities},
    {"not_dumpable", not_dumpable},
    {"no_new_privileges", no_new_privileges},
    {"clear_environment", clear_environment},
    {"rename_thread", rename_thread},
    {"change_locale", change_locale},
    {"hide_proc", hide_proc},
    {"hide_other_pids", hide_other_pids},
};

}  // namespace

std::span<const Action> identity_actions() { return kActions; }

}  // namespace adverse
