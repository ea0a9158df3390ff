// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "options.h"

namespace pillion {

// A set of Mode values.
using ModeSet = std::uint32_t;
[[nodiscard]] constexpr ModeSet mode_bit(Mode mode) { return 1u << static_cast<unsigned>(mode); }
inline constexpr ModeSet kAllModes = (1u << kModes) - 1;

// Why a flag cannot apply; finishes the sentence "flag -x cannot be used with `pillion record`: ".
struct FlagRefusal {
  ModeSet modes = 0;
  const char* reason = "";
};

// One flag. Every mode is in `applies` or in exactly one of `refusals`; a test walks the table and fails
// otherwise.
struct Flag {
  const char* name;
  const char* type;     // as -help shows it: "duration", "N", "" for a boolean
  const char* initial;  // the default, in the flag's own words; "": unset
  const char* help;
  ModeSet applies;
  FlagRefusal refusals[3];

  // Checks the range and stores the value; the error does not name the flag.
  Result<void> (*set)(Options& options, const std::string& text);
  bool boolean = false;     // takes no value unless by '='
  bool repeatable = false;  // collects a list

  [[nodiscard]] const char* refusal(Mode mode) const;  // null when it applies
};

[[nodiscard]] std::span<const Flag> flags();
[[nodiscard]] const Flag* find_flag(std::string_view name);

// "pillion record -- command", as messages call it.
[[nodiscard]] const char* to_string(Mode mode);

// The flags that apply in any of these modes, one paragraph each, for -help.
[[nodiscard]] std::string help_text(ModeSet modes);

}  // namespace pillion
