// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace pillion::unwind {

enum class MappingKind : std::uint8_t { file, anonymous, vdso, vsyscall };

// One line of /proc/PID/maps.
struct Mapping {
  std::uint64_t start = 0;
  std::uint64_t end = 0;     // first address after it
  std::uint64_t offset = 0;  // in the file, bytes
  std::uint64_t device = 0;  // as makedev() makes it
  std::uint64_t inode = 0;
  std::string path;  // without the kernel's " (deleted)"
  MappingKind kind = MappingKind::anonymous;
  bool deleted = false;
};

// The executable mappings of one target at one moment, sorted by address. Parsed from text that the workload
// could have forged: every number is checked, lines that are malformed, out of order or overlapping are left
// out and counted. Immutable once parsed.
class MapsTable {
 public:
  static constexpr std::size_t kTextBytesMax = 32U << 20;
  static constexpr std::size_t kMappingsMax = 65536;
  static constexpr std::size_t kPathMax = 4096;

  MapsTable() = default;
  // Format: proc_pid_maps(5). What lies past the limits is left out and counted.
  static MapsTable parse(std::string_view text);

  // The executable mapping that holds `pc`, or null.
  [[nodiscard]] const Mapping* find(std::uint64_t pc) const;
  [[nodiscard]] const std::vector<Mapping>& mappings() const { return mappings_; }
  [[nodiscard]] std::uint64_t rejected_lines() const { return rejected_; }
  // Tells this parse from every other in the process; 0 for a table that was never parsed.
  [[nodiscard]] std::uint64_t serial() const { return serial_; }

 private:
  std::vector<Mapping> mappings_;
  std::uint64_t rejected_ = 0;
  std::uint64_t serial_ = 0;
};

}  // namespace pillion::unwind
