// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <string>

// Runs the probe (or another program on the double) in a process of its own.
struct Outcome {
  int exit_code = -1;  // -1 when it died by a signal
  int signal = 0;
  std::map<std::string, std::uint64_t> values;
  std::string text;  // stdout and stderr
  std::uint64_t at(const std::string& key) const {
    const auto found = values.find(key);
    return found != values.end() ? found->second : 0;
  }
};
// `environment`: "A=1 B=2".
Outcome run_probe(const std::string& arguments, const std::string& environment = "");
Outcome run_program(const std::string& command, const std::string& environment = "");
