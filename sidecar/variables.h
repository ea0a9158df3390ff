// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "modes.h"
#include "options.h"

namespace pillion {

// Who reads a variable, from the environment of its own process.
enum class Reader : std::uint8_t {
  pillion,
  shim,
  both,
  driver  // CUDA's, inside cuInit
};

[[nodiscard]] const char* to_string(Reader reader);  // "the shim, in the workload's environment"

// One environment variable, pillion's or the shim's. Every mode is in `applies` or has exactly one reason in
// `elsewhere`; a test walks the table and fails otherwise.
//
// Unlike a flag, a variable is not said to one command: a container or a shell sets it for every program that
// starts there, `pillion probe` beside `pillion serve`, `pillion record -pid 1` beside the workload. So one
// that a command has no use for does not stop it; serve and record name it in their log, with the reason.
// What would contradict a command, or has a value that nobody will understand, is refused by the name of the
// variable.
struct Variable {
  const char* name;
  const char* type;
  const char* initial;  // what holds when it is unset or empty
  const char* help;
  Reader reader;
  ModeSet applies;  // pillion reads it, or passes it on to the command that it starts
  ModeReasons elsewhere;

  // Checks the value and stores what pillion itself needs; the error does not name the variable.
  Result<void> (*set)(Options& options, const std::string& text);
};

[[nodiscard]] std::span<const Variable> variables();

// Name and value of those variables of the table that are set and not empty.
[[nodiscard]] Environment read_environment();

// Stores what applies in Options::mode. An error names the variable.
[[nodiscard]] Result<void> set_from_environment(const Environment& environment, Options& options);

// One line for each that is set and is not for this mode: it has no effect here, and why.
[[nodiscard]] std::vector<std::string> idle_variables(const Environment& environment, Mode mode);

// The variables that apply in any of these modes, one paragraph each, for -help.
[[nodiscard]] std::string variables_help(ModeSet modes);

}  // namespace pillion
