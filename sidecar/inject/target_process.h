// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "base/result.h"
#include "base/unique_fd.h"
#include "inject/examination.h"

namespace pillion::inject {

// The process that is injected into, held by a pidfd: never one that got its pid later.
class TargetProcess {
 public:
  [[nodiscard]] static Result<TargetProcess> open(const Examination& found);

  [[nodiscard]] std::uint32_t pid() const { return pid_; }
  // Waits for its end at most that long: a process that is being killed lives on for a moment.
  [[nodiscard]] bool alive(int milliseconds = 0) const;
  // A copy of the target's descriptor `number`.
  [[nodiscard]] Result<UniqueFd> descriptor(std::int64_t number) const;
  [[nodiscard]] std::string maps() const;
  // "/proc/PID", or that of a thread that lives
  [[nodiscard]] std::string folder() const;

 private:
  std::uint32_t pid_ = 0;
  std::uint32_t live_thread_ = 0;
  UniqueFd pidfd_;
};

// Writes all of `bytes` at `offset`.
[[nodiscard]] Result<void> write_at(int file, const void* bytes, std::size_t size, std::uint64_t offset);

}  // namespace pillion::inject
