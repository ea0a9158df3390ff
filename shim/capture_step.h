// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>

namespace pillion::shim {

// The call of CUPTI's that the capture thread is in, a literal; "" in none. CUPTI's calls may take seconds,
// or never return, while the program launches at full speed: whoever is refused for that is told where it
// hangs.
inline constinit std::atomic<const char*> g_capture_step{""};

// On the capture thread alone.
class CaptureStep {
 public:
  explicit CaptureStep(const char* call) { g_capture_step.store(call, std::memory_order_relaxed); }
  ~CaptureStep() { g_capture_step.store("", std::memory_order_relaxed); }
  CaptureStep(const CaptureStep&) = delete;
  CaptureStep& operator=(const CaptureStep&) = delete;
};

}  // namespace pillion::shim
