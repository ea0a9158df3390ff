// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

// The double's one clock: CLOCK_MONOTONIC nanoseconds. With SIMGPU_VIRTUAL_TIME=1 waiting does not sleep: it
// moves a skew that is added to every later reading.
namespace simgpu {

std::uint64_t now_ns();
void sleep_until(std::uint64_t ns);

}  // namespace simgpu
