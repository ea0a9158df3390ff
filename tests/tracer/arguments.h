// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

namespace tracer {

// What the command line asks for. Exits with status 2 on anything else.
struct Arguments {
  std::string report;           // file for one line a step
  std::uint64_t freeze_at = 0;  // the step after which the process is stopped; 0: none
  std::uint64_t delay_ms = 0;   // longest delay of a step; 0: none
  std::uint64_t seed = 1;
  std::uint64_t delays = 0;          // the tracer lets go after so many delayed steps; 0: never
  std::set<std::string> delay_only;  // names of the calls that are delayed; empty: all
  std::vector<char*> command;        // ends with a null
};

[[nodiscard]] Arguments parse_arguments(int argc, char** argv);

}  // namespace tracer
