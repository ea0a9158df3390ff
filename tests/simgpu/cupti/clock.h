// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "cupti_types.h"

// Records carry the client's clock: CLOCK_REALTIME until a timestamp callback is registered. The double's own
// times are CLOCK_MONOTONIC; an offset between the two is measured when the callback comes and when a kind is
// enabled.
namespace simgpu {

// False on a null callback. A second registration in one process spoils all later stamps, as the real one
// does.
bool register_timestamp_callback(pillion::cupti::TimestampFunc callback);
void measure_clock_offset();  // on the enabling thread and on the worker
std::uint64_t client_ns(std::uint64_t monotonic_ns);
std::uint64_t client_now_ns();

}  // namespace simgpu
