// SPDX-License-Identifier: Apache-2.0
#include <grp.h>
#include <linux/capability.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <clocale>
#include <cstdlib>
#include <cstring>
#include <ctime>

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

// The program has to have a mount namespace of its own.
bool hide_proc(const std::string&) { return ::mount("none", "/proc", "tmpfs", 0, nullptr) == 0; }
bool hide_other_pids(const std::string&) { return ::mount("proc", "/proc", "proc", 0, "hidepid=2") == 0; }

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
