// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "base/result.h"

namespace pillion::inject {

// What process `pid` has run out of, by the errno value of a call that it made (EMFILE, ENFILE, ENOMEM,
// EAGAIN of a new thread), with the limits that hold for it and how to raise them; empty for other values.
// For people.
[[nodiscard]] std::string shortage(const std::string& proc_root, std::uint32_t pid, int number);

// The failure of a call that process `pid` made for us, with its errno value. Thread-safe.
[[nodiscard]] tl::unexpected<Error> fail_in_target(std::string operation, std::string object, int number,
                                                   std::uint32_t pid);

}  // namespace pillion::inject
