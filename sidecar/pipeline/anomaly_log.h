// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "profile/anomalies.h"

namespace pillion::pipeline {

// Says in the log what goes wrong: a line when a kind occurs for the first time, with what it means; after
// that its total at most every kRepeatNs while it grows, and once more at the end. One owner thread.
class AnomalyLog {
 public:
  using Write = std::function<void(const std::string& line)>;
  static constexpr std::uint64_t kRepeatNs = 600'000'000'000;

  AnomalyLog();  // to the program's log, as warnings
  explicit AnomalyLog(Write write);

  // `totals` since the program started; they never shrink.
  void note(const profile::AnomalyCounts& totals, std::uint64_t now_ns);
  // The totals that have grown since they were last said.
  void finish(const profile::AnomalyCounts& totals);

 private:
  struct Said {
    std::uint64_t total = 0;
    std::uint64_t at_ns = 0;
  };

  const Write write_;
  std::vector<Said> said_;  // by anomaly_kinds()
};

}  // namespace pillion::pipeline
