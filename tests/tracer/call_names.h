// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

namespace tracer {

// The name of a system call that Pillion's handshake makes, else its number.
[[nodiscard]] std::string call_name(std::uint64_t number);

}  // namespace tracer
