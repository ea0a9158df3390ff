// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace pillion::discovery {

// A shim by the name of its socket. What the name says is the workload's word: an identity to tell shims
// apart, and no proof of anything.
struct ShimAddress {
  std::string path;
  std::uint64_t pid_namespace = 0;  // inode
  std::uint32_t pid = 0;            // in that namespace
  std::uint64_t start_time = 0;     // clock ticks since boot
  bool operator==(const ShimAddress&) const = default;
};

// pillion-<pid namespace>-<pid>-<start time>.sock, decimal, no sign and no leading zero.
[[nodiscard]] std::optional<ShimAddress> parse_socket_name(const std::string& directory,
                                                           std::string_view name);

// What `-pid N` asks for. Empty: every process.
class TargetSelection {
 public:
  explicit TargetSelection(std::vector<std::uint32_t> pids = {}) : pids_(std::move(pids)) {}

  [[nodiscard]] bool everything() const { return pids_.empty(); }
  // `seen_pid` is SO_PEERCRED's, the process as this sidecar sees it; 0 when it lives in a PID namespace that
  // the sidecar cannot see: then, and only then, the pid in the name counts.
  [[nodiscard]] bool matches(const ShimAddress& address, std::uint32_t seen_pid) const;

 private:
  std::vector<std::uint32_t> pids_;
};

}  // namespace pillion::discovery
