// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

namespace pillion {

// Foreign text made safe for a log line, JSON and a terminal: control characters and whatever is not valid
// UTF-8 become '?', byte for byte.
[[nodiscard]] std::string printable(std::string_view text);

}  // namespace pillion
