// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <type_traits>

#include "base/unique_fd.h"

namespace pillion::inject {

// The memory of a process, read through the kernel: an address that is not there is an error, never a fault.
// What comes is foreign bytes, and may change between two reads.
class TargetMemory {
 public:
  // `fd`: of /proc/PID/mem, or of a file whose offsets stand for addresses.
  explicit TargetMemory(UniqueFd fd) : fd_(std::move(fd)) {}

  // All of it or nothing.
  [[nodiscard]] bool read(std::uint64_t address, void* to, std::size_t bytes) const;

  template <typename Value>
  [[nodiscard]] bool read(std::uint64_t address, Value& value) const {
    static_assert(std::is_trivially_copyable_v<Value>);
    return read(address, &value, sizeof(value));
  }

  // Up to the NUL; empty when it is not there or longer than `bytes_max`.
  [[nodiscard]] std::string read_text(std::uint64_t address, std::size_t bytes_max) const;

 private:
  UniqueFd fd_;
};

}  // namespace pillion::inject
