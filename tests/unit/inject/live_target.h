// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "base/unique_fd.h"
#include "inject/examination.h"

namespace pillion::inject {

// A running inject_target, as a test's injections find it.
class LiveTarget {
 public:
  explicit LiveTarget(const std::string& call, int malloc_threads = 0);
  ~LiveTarget();
  LiveTarget(const LiveTarget&) = delete;
  LiveTarget& operator=(const LiveTarget&) = delete;

  [[nodiscard]] const Examination& found() const { return found_; }
  [[nodiscard]] pid_t pid() const { return static_cast<pid_t>(found_.pid); }
  [[nodiscard]] std::string maps() const;
  [[nodiscard]] int open_files() const;
  [[nodiscard]] int threads() const;
  // Ends it; what it says about itself, and its exit status: "whole 7".
  [[nodiscard]] std::string end();

 private:
  Examination found_;
  UniqueFd to_target_;
  UniqueFd from_target_;
};

}  // namespace pillion::inject
