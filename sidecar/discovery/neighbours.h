// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <optional>
#include <string>

namespace pillion::discovery {

// Whether the pod has processes besides this program: any in /proc but pid 1 (the pod's pause container),
// those of this program's name (probes), and those that have ended. Nothing when /proc cannot be read.
[[nodiscard]] std::optional<bool> has_neighbours(const std::string& proc_root = "/proc");

// Notices that everybody else has left: there were neighbours, and for `patience` there has been none. Where
// this program sees no process but its own from the start, it never says so. On one thread.
class LastOneHere {
 public:
  using Clock = std::chrono::steady_clock;

  explicit LastOneHere(std::chrono::milliseconds patience, std::string proc_root = "/proc")
      : patience_(patience), proc_root_(std::move(proc_root)) {}

  // Looks; to be called every now and then.
  [[nodiscard]] bool look(Clock::time_point now);

 private:
  const std::chrono::milliseconds patience_;
  const std::string proc_root_;
  bool had_neighbours_ = false;
  std::optional<Clock::time_point> alone_since_;
};

}  // namespace pillion::discovery
