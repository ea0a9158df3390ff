// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/unique_fd.h"

namespace pillion::inject {

// What /proc/PID/status says; whoever may list /proc may read it.
struct ProcessStatus {
  std::string name;  // as it is; not printable
  char state = '?';
  std::uint32_t thread_group = 0;       // "Tgid"
  std::uint32_t parent = 0;             // 0: none that this PID namespace can see
  std::uint32_t tracer = 0;             // 0: none that this PID namespace can see
  std::array<std::uint32_t, 4> uids{};  // real, effective, saved, file system
  std::array<std::uint32_t, 4> gids{};
  std::vector<std::uint32_t> pids;  // "NSpid": from the reader's PID namespace inwards
  std::uint64_t permitted = 0;      // capabilities, a bit each
  std::uint64_t effective = 0;
  std::uint32_t seccomp = 0;          // 0 none, 1 strict, 2 filter
  std::uint32_t seccomp_filters = 0;  // before Linux 5.9, which does not say: 1 where there is any
  bool no_new_privileges = false;
};

[[nodiscard]] ProcessStatus parse_status(std::string_view text);

// Of /proc/PID/stat.
struct ProcessStat {
  std::uint64_t start_time = 0;  // clock ticks since boot
  bool kernel_thread = false;
  std::uint64_t start_stack = 0;  // address; 0 or 1 for whom may not know it
};
[[nodiscard]] std::optional<ProcessStat> parse_stat(std::string_view text);

// A process's folder in /proc, held open: once the process is gone every read fails, also when its pid is
// another's by then.
class ProcessFolder {
 public:
  static constexpr std::size_t kFileBytesMax = 16u << 20;

  [[nodiscard]] static Result<ProcessFolder> open(const std::string& proc_root, std::uint32_t pid);

  [[nodiscard]] int fd() const { return fd_.get(); }
  [[nodiscard]] const std::string& path() const { return path_; }

  // `name` below the folder: "status", "task/12/maps". Cut at kFileBytesMax.
  [[nodiscard]] Result<std::string> read(const std::string& name) const;
  [[nodiscard]] Result<std::string> link(const std::string& name) const;

  // The number in "mnt:[4026531841]"; 0 when it may not be read.
  [[nodiscard]] std::uint64_t name_space(const std::string& kind) const;

  // Thread ids in the order of /proc.
  [[nodiscard]] std::vector<std::uint32_t> threads() const;

 private:
  ProcessFolder(UniqueFd fd, std::string path) : fd_(std::move(fd)), path_(std::move(path)) {}

  UniqueFd fd_;
  std::string path_;  // for messages
};

// The names in `folder` that are numbers.
[[nodiscard]] std::vector<std::uint32_t> numbered_entries(int folder_fd, const char* name);

}  // namespace pillion::inject
