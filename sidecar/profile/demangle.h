// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

namespace pillion::profile {

// The C++ name of a mangled one, cut at 16 KiB; the name itself when it is not mangled. Goes through
// libiberty's callback interface: a 230-byte mangled name can expand to 142 MB, and the callback stops
// collecting.
[[nodiscard]] std::string demangle(std::string_view mangled);

}  // namespace pillion::profile
