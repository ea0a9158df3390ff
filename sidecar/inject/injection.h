// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "inject/examination.h"
#include "inject/injector.h"

namespace pillion::inject {

// What the helper process leaves to its parent, in memory that both share: whole at every moment of its
// death.
struct InjectionReport {
  std::uint32_t finished = 0;
  std::uint32_t status = 0;     // InjectionStatus
  std::uint32_t last_step = 0;  // Step
  std::uint32_t tid = 0;
  std::uint64_t stopped_ns = 0;
  char socket[256] = {};
  char library[256] = {};
  char cupti[256] = {};
  char text[768] = {};
};

// The injection itself, in the helper process: single-threaded, SIGCHLD blocked.
void run_injection(const Examination& found, const InjectionSettings& settings, InjectionReport& report);

}  // namespace pillion::inject
