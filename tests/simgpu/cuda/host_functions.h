// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "cuda_driver.h"

// Functions of cuLaunchHostFunc run on one thread of the double, as on one of the driver's, which sleeps
// until the next is due. It starts at the first use, with all signals blocked.
namespace simgpu {

void run_at(std::uint64_t ns, CUstream stream, CUhostFn function, void* data);
void wait_host_functions(CUstream stream);

}  // namespace simgpu
