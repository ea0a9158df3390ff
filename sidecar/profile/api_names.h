// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

namespace pillion::profile {

// Name of a driver API call by its CUpti_driver_api_trace_cbid, as the application's source spells it
// (without the version and per-thread-stream suffixes); "driver call N" for what neither launches nor waits,
// or is newer than the table.
[[nodiscard]] std::string api_name(std::uint32_t cbid);

// "[memcpy HtoD]" and the like, by CUpti_ActivityMemcpyKind.
[[nodiscard]] std::string copy_name(std::uint32_t copy_kind);

}  // namespace pillion::profile
