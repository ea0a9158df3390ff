// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "modes.h"
#include "options.h"

namespace pillion {

// One flag. Every mode is in `applies` or has exactly one reason in `refused`; a test walks the table and
// fails otherwise.
struct Flag {
  const char* name;
  const char* type;     // as -help shows it: "duration", "N", "" for a boolean
  const char* initial;  // the default, in the flag's own words; "": unset
  const char* help;
  ModeSet applies;
  ModeReasons refused;

  // Checks the range and stores the value; the error does not name the flag.
  Result<void> (*set)(Options& options, const std::string& text);
  bool boolean = false;     // takes no value unless by '='
  bool repeatable = false;  // collects a list

  // Whether `text` says what holds anyway. Saying so is never refused, also where the flag does not apply.
  [[nodiscard]] bool is_default(const std::string& text) const;
};

// All of them, in the order of the tables (flag_tables.h).
[[nodiscard]] std::span<const Flag> flags();
[[nodiscard]] const Flag* find_flag(std::string_view name);

// The flags that apply in any of these modes, one paragraph each, for -help.
[[nodiscard]] std::string flags_help(ModeSet modes);

}  // namespace pillion
