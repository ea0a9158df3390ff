// SPDX-License-Identifier: Apache-2.0
#include "arguments.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <sstream>

namespace tracer {
namespace {

[[noreturn]] void usage(const char* problem) {
  std::fprintf(stderr,
               "step_tracer: %s\nusage: step_tracer -report FILE [-freeze-at STEP] [-delay-ms MOST [-seed N] "
               "[-delays COUNT] [-delay-only CALL,...]] -- COMMAND [ARGUMENT...]\n",
               problem);
  std::exit(2);
}

std::uint64_t number(const char* text) {
  char* end = nullptr;
  const std::uint64_t value = std::strtoull(text, &end, 10);
  if (*text == '\0' || *end != '\0') usage("not a number");
  return value;
}

std::set<std::string> names(const char* text) {
  std::set<std::string> all;
  std::istringstream stream(text);
  for (std::string name; std::getline(stream, name, ',');) all.insert(name);
  return all;
}

}  // namespace

Arguments parse_arguments(int argc, char** argv) {
  Arguments arguments;
  int at = 1;
  for (; at < argc && std::strcmp(argv[at], "--") != 0; at += 2) {
    const std::string name = argv[at];
    if (at + 1 >= argc) usage("an option without its value");
    const char* value = argv[at + 1];
    if (name == "-report") {
      arguments.report = value;
    } else if (name == "-freeze-at") {
      arguments.freeze_at = number(value);
    } else if (name == "-delay-ms") {
      arguments.delay_ms = number(value);
    } else if (name == "-seed") {
      arguments.seed = number(value);
    } else if (name == "-delays") {
      arguments.delays = number(value);
    } else if (name == "-delay-only") {
      arguments.delay_only = names(value);
    } else {
      usage("unknown option");
    }
  }
  if (at + 1 >= argc) usage("no command");
  if (arguments.report.empty()) usage("no -report");
  arguments.command.assign(argv + at + 1, argv + argc);
  arguments.command.push_back(nullptr);
  return arguments;
}

}  // namespace tracer
