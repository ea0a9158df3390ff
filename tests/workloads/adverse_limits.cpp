// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "adverse.h"

// Resource limits: set, reached, given back.
namespace adverse {
namespace {

std::vector<int> fillers;

// The hard limit stays, so that it can be undone. With an argument that begins with '+': so many KiB more
// than is in use (address space and data).
bool limit(__rlimit_resource resource, const std::string& argument) {
  rlimit now{};
  if (::getrlimit(resource, &now) != 0) return false;
  if (argument == "none") {
    now.rlim_cur = now.rlim_max;
  } else if (argument[0] == '+') {
    const char* field = resource == RLIMIT_DATA ? "VmData" : "VmSize";
    std::FILE* status = std::fopen("/proc/self/status", "r");
    if (status == nullptr) return false;
    char line[256];
    unsigned long long kib = 0;
    while (std::fgets(line, sizeof line, status) != nullptr) {
      if (std::string(line).rfind(field, 0) == 0) kib = std::strtoull(line + 7, nullptr, 10);
    }
    std::fclose(status);
    now.rlim_cur = (kib + std::strtoull(argument.c_str() + 1, nullptr, 10)) << 10;
  } else {
    now.rlim_cur = std::strtoull(argument.c_str(), nullptr, 10);
  }
  return ::setrlimit(resource, &now) == 0;
}

bool limit_address_space(const std::string& argument) { return limit(RLIMIT_AS, argument); }
bool limit_data(const std::string& argument) { return limit(RLIMIT_DATA, argument); }
bool limit_processes(const std::string& argument) { return limit(RLIMIT_NPROC, argument); }
bool limit_file_size(const std::string& argument) { return limit(RLIMIT_FSIZE, argument); }
bool limit_core(const std::string& argument) { return limit(RLIMIT_CORE, argument); }

// Opens until there is no number left.
bool exhaust_fds(const std::string&) {
  rlimit now{};
  if (::getrlimit(RLIMIT_NOFILE, &now) != 0) return false;
  now.rlim_cur = std::min<rlim_t>(now.rlim_cur, 512);
  if (::setrlimit(RLIMIT_NOFILE, &now) != 0) return false;
  for (int fd = ::open("/dev/null", O_RDONLY); fd >= 0; fd = ::open("/dev/null", O_RDONLY))
    fillers.push_back(fd);
  return errno == EMFILE;
}

bool free_fds(const std::string&) {
  for (const int fd : fillers) ::close(fd);
  fillers.clear();
  return true;
}

constexpr Action kActions[] = {
    {"limit_address_space", limit_address_space},
    {"limit_data", limit_data},
    {"limit_processes", limit_processes},
    {"limit_file_size", limit_file_size},
    {"limit_core", limit_core},
    {"exhaust_fds", exhaust_fds},
    {"free_fds", free_fds},
};

}  // namespace

std::span<const Action> limit_actions() { return kActions; }

}  // namespace adverse
