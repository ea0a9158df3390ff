// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

// Our own maps file read with raw system calls into a buffer on the caller's stack: no allocation, no lock.
namespace pillion::shim {

struct ProcMapping {
  static constexpr std::size_t kPathMax = 64;

  std::uint64_t start;
  std::uint64_t end;
  bool readable;
  bool executable;
  char path[kPathMax];  // cut; empty for anonymous memory

  [[nodiscard]] bool is_main_stack() const;
  // The character device /dev/nvidia-uvm, or a memory file of that name, as the driver double makes.
  [[nodiscard]] bool names_nvidia_uvm() const;
};

// One pass over the file, in the order of addresses. Owned by one thread.
class ProcMapsReader {
 public:
  ProcMapsReader();
  ~ProcMapsReader();
  ProcMapsReader(const ProcMapsReader&) = delete;
  ProcMapsReader& operator=(const ProcMapsReader&) = delete;

  // False at the end, or when /proc cannot be read.
  [[nodiscard]] bool next(ProcMapping* out);

 private:
  [[nodiscard]] bool fill();

  int fd_;
  std::size_t begin_ = 0;
  std::size_t end_ = 0;
  char buffer_[4096 + 512];  // more than the longest line that the kernel gives: a path is cut at a page
};

// The mapping that holds `address`, by one PROCMAP_QUERY (Linux 6.11) or else by reading the file. False when
// there is none or /proc cannot be read. `path` is filled only by the slow way. Any thread.
[[nodiscard]] bool find_mapping(std::uint64_t address, ProcMapping* out);

}  // namespace pillion::shim
