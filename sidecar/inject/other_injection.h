// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

namespace pillion::inject {

// What the helper process of an injection calls itself, so that others see what it is.
inline constexpr const char* kHelperName = "pillion-inject";

// Whether this process is such a helper. Anybody may take that name: it is for messages, nothing is allowed
// by it.
[[nodiscard]] bool is_injection_helper(const std::string& proc_root, std::uint32_t pid);

// "process 99 (pillion) of user 0": who started that helper.
[[nodiscard]] std::string injector_behind(const std::string& proc_root, std::uint32_t helper);

// The same of a helper, other than this process, that holds process `pid` open; empty: none that may be seen.
// Reads the names of all processes: some milliseconds.
[[nodiscard]] std::string find_other_injector(const std::string& proc_root, std::uint32_t pid);

}  // namespace pillion::inject
