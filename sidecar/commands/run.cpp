// SPDX-License-Identifier: Apache-2.0
#include <cstdio>

#include "commands/commands.h"
#include "commands/program_files.h"
#include "variables.h"

namespace pillion::commands {

int run(const std::vector<std::string>& arguments, const RuntimeFactory& make_runtime) {
  const auto environment = read_environment();
  const auto parsed = parse_options(arguments, environment);
  if (!parsed) {
    std::fprintf(stderr, "pillion: %s\n", parsed.error().message().c_str());
    return kUsage;
  }
  if (const auto* help = std::get_if<Help>(&*parsed)) {
    if (std::fputs(help->text.c_str(), stdout) >= 0) return kDone;
    // What does not fit stdio's buffer fails here, and main's flush finds nothing left to write.
    std::fprintf(stderr, "pillion: %s\n", fail_errno("write", "stdout").value().message().c_str());
    return kInternal;
  }
  const auto& options = std::get<Options>(*parsed);
  set_log_level(options.log_level);
  if ((mode_bit(options.mode) & kProfiling) != 0) {
    for (const auto& line : idle_variables(environment, options.mode)) log(LogLevel::info, line);
  }
  switch (options.mode) {
    case Mode::serve:
      return serve(options, make_runtime);
    case Mode::record_attach:
    case Mode::record_command:
      return record(options, make_runtime, program_folder());
    case Mode::install:
      return install(options, program_folder());
    case Mode::probe:
      return probe(options);
    case Mode::inject:
      return inject(options, program_folder());
    case Mode::doctor:
      return doctor(options, program_folder());
  }
  return kInternal;
}

}  // namespace pillion::commands
