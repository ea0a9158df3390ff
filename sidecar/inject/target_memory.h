// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <type_traits>

namespace pillion::inject {

// The memory of a process, read through the kernel: an address that is not there is an error, never a fault.
// What comes is foreign bytes, and may change between two reads.
class TargetMemory {
 public:
  // `thread`: one of the process that is alive. By process_vm_readv, which asks for the right to trace and
  // not, as /proc/PID/mem does, for that of the file's owner as well.
  explicit TargetMemory(std::uint32_t thread) : thread_(static_cast<pid_t>(thread)) {}

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
  pid_t thread_;
};

}  // namespace pillion::inject
