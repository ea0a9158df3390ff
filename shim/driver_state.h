// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

// What the CUDA driver says about this process. Callable on the control thread: nothing here waits for the
// GPU, and nothing calls CUDA while cuInit may still be running (it is what loads this library, with the
// driver's locks held).
namespace pillion::shim {

// Whoever runs InitializeInjection, inside cuInit: from now on the driver is not called before a context is
// mapped, or for ten seconds.
void note_cuda_is_starting();

// False while cuInit may still be running.
[[nodiscard]] bool may_call_cuda();

// 0 while there is no driver. Arming asks in any case: a recorder may arm a program that it holds inside
// cuInit.
[[nodiscard]] std::uint32_t cuda_driver_version();

// Whether the process has a CUDA context.
[[nodiscard]] bool cuda_context_exists();

// The same by the process's mappings alone, without any call of CUDA. False on systems where a context maps
// nothing that is known.
[[nodiscard]] bool context_is_mapped();

}  // namespace pillion::shim
