// SPDX-License-Identifier: Apache-2.0
#include "inject/shortage.h"

#include <cerrno>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "inject/proc_text.h"

namespace pillion::inject {
namespace {

struct Limit {
  const char* row;     // in /proc/PID/limits
  const char* name;    // of the resource
  const char* option;  // of prlimit(1)
  const char* unit;
};
constexpr Limit kFiles{"Max open files", "RLIMIT_NOFILE", "nofile", ""};
constexpr Limit kAddressSpace{"Max address space", "RLIMIT_AS", "as", " bytes"};
constexpr Limit kData{"Max data size", "RLIMIT_DATA", "data", " bytes"};
constexpr Limit kThreads{"Max processes", "RLIMIT_NPROC", "nproc", ""};

// The soft limit as a number; nothing where it is unlimited, or unknown.
std::optional<std::string> soft_limit(std::string_view limits, const Limit& limit) {
  const std::size_t at = limits.find(limit.row);
  if (at == std::string_view::npos) return std::nullopt;
  std::string_view rest = limits.substr(at + std::string_view(limit.row).size());
  rest.remove_prefix(std::min(rest.find_first_not_of(' '), rest.size()));
  const std::string_view value = rest.substr(0, rest.find_first_of(" \n"));
  if (value.empty() || value.find_first_not_of("0123456789") != std::string_view::npos) return std::nullopt;
  return std::string(value);
}

// "its RLIMIT_AS is 1000 bytes, raise it: prlimit --pid 42 --as=..."; nothing where none of them is set.
std::string limits_text(const std::string& limits, std::uint32_t pid, const std::vector<Limit>& wanted) {
  std::string what;
  std::string command = "prlimit --pid " + std::to_string(pid);
  for (const Limit& limit : wanted) {
    const auto value = soft_limit(limits, limit);
    if (!value) continue;
    what += (what.empty() ? "its " : ", its ") + std::string(limit.name) + " is " + *value + limit.unit;
    command += std::string(" --") + limit.option + "=...";
  }
  return what.empty() ? "" : what + "; raise it with `" + command + "`";
}

}  // namespace

std::string shortage(const std::string& proc_root, std::uint32_t pid, int number) {
  const std::string limits = read_proc_text(proc_root + "/" + std::to_string(pid) + "/limits");
  switch (number) {
    case EMFILE: {
      const std::string text = limits_text(limits, pid, {kFiles});
      return "the process has no file descriptor left" + (text.empty() ? "" : ": " + text);
    }
    case ENFILE:
      return "the machine has no open file left: raise it with `sysctl fs.file-max=...`";
    case ENOMEM: {
      const std::string text = limits_text(limits, pid, {kAddressSpace, kData});
      if (!text.empty()) return "the process can have no more memory: " + text;
      return "the process can have no more memory: see the limit of its memory cgroup, and `sysctl "
             "vm.max_map_count vm.overcommit_memory`";
    }
    case EAGAIN: {
      const std::string text = limits_text(limits, pid, {kThreads, kAddressSpace, kData});
      return "the process can have no more threads, or no memory for the stack of one: " +
             (text.empty() ? "see pids.max and memory of its cgroup"
                           : text + "; or see pids.max of its cgroup");
    }
    default:
      return {};
  }
}

tl::unexpected<Error> fail_in_target(std::string operation, std::string object, int number,
                                     std::uint32_t pid) {
  return tl::make_unexpected(
      Error{std::move(operation), std::move(object), number, shortage("/proc", pid, number)});
}

}  // namespace pillion::inject
