// SPDX-License-Identifier: Apache-2.0
#include "run_probe.h"

#include <sys/wait.h>

#include <cstdio>
#include <sstream>

Outcome run_program(const std::string& command, const std::string& environment) {
  Outcome outcome;
  // exec, so that a signal is the program's own and not the shell's.
  const std::string line = "exec env " + environment + " LD_LIBRARY_PATH=" SIMGPU_DIR " " + command + " 2>&1";
  std::FILE* pipe = popen(line.c_str(), "r");
  if (pipe == nullptr) return outcome;
  char block[4096];
  for (std::size_t n = 0; (n = std::fread(block, 1, sizeof block, pipe)) > 0;) outcome.text.append(block, n);
  const int status = pclose(pipe);
  if (WIFEXITED(status)) outcome.exit_code = WEXITSTATUS(status);
  if (WIFSIGNALED(status)) outcome.signal = WTERMSIG(status);
  std::istringstream lines(outcome.text);
  for (std::string text; std::getline(lines, text);) {
    std::istringstream words(text);
    std::string key;
    std::uint64_t value = 0;
    if (words >> key >> value) outcome.values[key] = value;
  }
  return outcome;
}

Outcome run_probe(const std::string& arguments, const std::string& environment) {
  return run_program(std::string(SIMGPU_PROBE " ") + arguments, environment);
}
