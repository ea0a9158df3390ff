// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

// The environment variables SIMGPU_*, read once per library. README.md lists them all.
namespace simgpu {

std::uint64_t knob(const char* name, std::uint64_t fallback);
std::string knob_text(const char* name);

// One line of SIMGPU_FAULTS: "function:nth:result". nth counts from 1; "3+" is the third and all after it,
// "*" is every call.
struct Fault {
  std::string function;
  std::uint64_t first;
  bool onwards;
  int result;
};
std::vector<Fault> parse_faults(const std::string& text);

// Counts the calls of one function and says which of them fail. One static object per function; a function
// that no fault names costs one load per call.
class FaultPoint {
 public:
  explicit FaultPoint(const char* function);
  std::optional<int> next() {
    if (faults_.empty()) return std::nullopt;
    return count_and_match();
  }

 private:
  std::optional<int> count_and_match();
  std::vector<Fault> faults_;
  std::atomic<std::uint64_t> calls_{0};
};

}  // namespace simgpu
