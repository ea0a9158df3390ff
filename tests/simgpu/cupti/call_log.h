// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/knobs.h"
#include "cupti_types.h"

namespace simgpu {

namespace cupti = pillion::cupti;

// One line per CUPTI call in the file of SIMGPU_CALL_LOG: "<monotonic ns> <tid> <function> <result>". Written
// when the call returns; a call that never returns has a line with result "called". GetNextRecord is left
// out: it runs once per record.
void log_call(const char* function, cupti::Result result);
void log_entry(const char* function);

// Every exported function but the hottest goes through this: fault table, log.
template <class Body>
cupti::Result api(const char* function, Body body) {
  static FaultPoint& fault = *new FaultPoint(function);  // Body's type is unique per function
  const auto injected = fault.next();
  const cupti::Result result = injected ? static_cast<cupti::Result>(*injected) : body();
  log_call(function, result);
  return result;
}

}  // namespace simgpu
