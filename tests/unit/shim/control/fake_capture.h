// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "ring_writer.h"

namespace pillion::shim {

// What a launch callback would do: pushes one record into the events rings of the session and counts it.
[[nodiscard]] PushResult fake_launch(std::uint32_t tid, std::uint32_t sequence);

}  // namespace pillion::shim
