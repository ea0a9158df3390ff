// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

#include "cupti_api.h"

// A CUPTI that does nothing but remember which calls were made, in order, and answers as it is told to.
namespace pillion::shim::test {

class FakeCupti {
 public:
  FakeCupti();
  ~FakeCupti();
  FakeCupti(const FakeCupti&) = delete;
  FakeCupti& operator=(const FakeCupti&) = delete;

  CuptiApi api{};
  // Results by function name; others succeed.
  void fail(const std::string& call, cupti::Result result);
  void set_holder(const std::string& name) { holder_ = name; }
  void set_clock_is_monotonic(bool yes) { monotonic_ = yes; }

  [[nodiscard]] std::vector<std::string> calls() const;
  [[nodiscard]] int count(const std::string& call) const;
  // Place of the first such call, or -1.
  [[nodiscard]] int place(const std::string& call) const;

 private:
  friend struct FakeCalls;
  cupti::Result note(const std::string& call);

  mutable std::mutex mutex_;
  std::vector<std::string> calls_;
  std::vector<std::pair<std::string, cupti::Result>> failures_;
  std::string holder_;
  bool monotonic_ = true;
};

}  // namespace pillion::shim::test
