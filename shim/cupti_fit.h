// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

// Which CUPTI library fits which driver. Decided before the library's first real call, because a wrong pair
// does not always answer with an error: it may record nothing, silently, or crash the program.
namespace pillion::shim {

// The CUDA version (1000 * major + 10 * minor) of a library by its cuptiGetVersion; 0 when it is older
// than 11.0. Numbers up to 28 are a running count, later ones are xxyyzz of CUDA xx.y update z.
[[nodiscard]] std::uint32_t cuda_version_of_cupti(std::uint32_t api_version);

enum class CuptiFit : std::uint8_t {
  fits,
  too_new,  // made for a CUDA major that the driver does not know
  too_old,  // known to crash the program at its first activity call under such a driver
};

// `driver_version` as cuDriverGetVersion; 0 (unknown) fits everything.
[[nodiscard]] CuptiFit cupti_fit(std::uint32_t api_version, std::uint32_t driver_version);

}  // namespace pillion::shim
