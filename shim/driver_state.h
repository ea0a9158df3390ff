// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

// The few questions that are asked of the CUDA driver, by symbols of the libcuda.so.1 that the process has
// already loaded. Nothing here loads it, initialises it, creates a context or waits for the GPU.
namespace pillion::shim {

// cuDriverGetVersion: 1000 * major + 10 * minor of the CUDA version that the driver supports; 0 without a
// driver.
[[nodiscard]] std::uint32_t cuda_driver_version();

// Whether the process has a CUDA context. Any thread, after cuInit has returned.
[[nodiscard]] bool cuda_context_exists();

}  // namespace pillion::shim
