// SPDX-License-Identifier: Apache-2.0
#include "flags.h"

#include <vector>

#include "flag_tables.h"

namespace pillion {

bool Flag::is_default(const std::string& text) const {
  if (*initial == '\0') return false;
  Options given, otherwise;
  return set(given, text) && set(otherwise, initial) && given == otherwise;
}

std::span<const Flag> flags() {
  static const std::vector<Flag> all = [] {
    std::vector<Flag> joined;
    for (const auto table : {server_flags(), attach_flags(), capture_flags(), output_flags()}) {
      joined.insert(joined.end(), table.begin(), table.end());
    }
    return joined;
  }();
  return all;
}

const Flag* find_flag(std::string_view name) {
  for (const auto& flag : flags()) {
    if (name == flag.name) return &flag;
  }
  return nullptr;
}

const char* to_string(Mode mode) {
  switch (mode) {
    case Mode::serve:
      return "pillion serve";
    case Mode::record_attach:
      return "pillion record";
    case Mode::record_command:
      return "pillion record -- command";
    case Mode::install:
      return "pillion install";
    case Mode::probe:
      return "pillion probe";
    case Mode::inject:
      return "pillion inject";
    case Mode::doctor:
      return "pillion doctor";
  }
  return "pillion";
}

std::string flags_help(ModeSet modes) {
  std::string text;
  for (const auto& flag : flags()) {
    if ((flag.applies & modes) == 0) continue;
    text += std::string("  -") + flag.name;
    if (*flag.type != '\0') text += std::string(" ") + flag.type;
    text += std::string("\n        ") + flag.help;
    if (*flag.initial != '\0' && !flag.boolean) text += std::string(" (default ") + flag.initial + ")";
    if ((flag.applies & modes) == kAttach) text += "; not with a command";
    text += '\n';
  }
  return text;
}

}  // namespace pillion
