// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include "modes.h"

// What `pillion help` prints: pages for people who see the program for the first time. Flags and variables
// come from their tables, so that a page cannot name one that its command refuses.
namespace pillion {

// All commands in a line each, and where to read on.
[[nodiscard]] std::string overview();

// One command: what it does, arguments, flags, environment, exit codes, an example. `command`: one that a
// mode of `modes` belongs to, else the page is empty.
[[nodiscard]] std::string manual_page(std::string_view command, ModeSet modes);

}  // namespace pillion
