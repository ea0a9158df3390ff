// SPDX-License-Identifier: Apache-2.0
#include <time.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>

#include "workload.h"

namespace workload {
namespace {

[[noreturn]] void usage(const char* program, const std::string& problem,
                        const std::map<std::string, std::function<void(const char*)>>& known) {
  std::fprintf(stderr, "%s: %s; options (each takes a value):", program, problem.c_str());
  for (const auto& [name, set] : known) std::fprintf(stderr, " --%s", name.c_str());
  std::fprintf(stderr, "\n");
  std::exit(2);
}

template <class Number>
std::function<void(const char*)> into(Number* number) {
  return [number](const char* text) {
    char* end = nullptr;
    const double value = std::strtod(text, &end);
    if (*text == '\0' || *end != '\0' || value < 0) {
      std::fprintf(stderr, "'%s' is not a number of at least 0\n", text);
      std::exit(2);
    }
    *number = static_cast<Number>(value);
  };
}

std::function<void(const char*)> into(std::string* text) {
  return [text](const char* value) { *text = value; };
}

}  // namespace

namespace {

// Kept for Device's constructor and print_truth(), which every workload passes before its first launch and
// after its last.
std::string start_file;
std::string end_file;

void wait_for(const std::string& file) {
  const timespec pause{0, 1'000'000};
  while (!file.empty() && ::access(file.c_str(), F_OK) != 0 && !stop_requested()) nanosleep(&pause, nullptr);
}

}  // namespace

void wait_for_start_file() { wait_for(start_file); }
void wait_for_end_file() { wait_for(end_file); }

Options parse_options(int argc, char** argv) {
  Options options;
  const std::map<std::string, std::function<void(const char*)>> known = {
      {"seconds", into(&options.seconds)}, {"iterations", into(&options.iterations)},
      {"rate", into(&options.rate)},       {"threads", into(&options.threads)},
      {"streams", into(&options.streams)}, {"nodes", into(&options.nodes)},
      {"bytes", into(&options.bytes)},     {"spin-ns", into(&options.spin_ns)},
      {"delay", into(&options.delay)},     {"plugin", into(&options.plugin)},
      {"command", into(&options.command)}, {"start-file", into(&start_file)},
      {"end-file", into(&end_file)},       {"graphs", into(&options.graphs)},
      {"round", into(&options.round)},     {"calm-file", into(&options.calm_file)},
      {"spoil", into(&options.spoil)},     {"before", into(&options.before)},
  };
  for (int i = 1; i < argc; ++i) {
    std::string name = argv[i];
    if (name.rfind("--", 0) != 0) usage(argv[0], "what is '" + name + "'", known);
    name.erase(0, 2);
    const char* value = nullptr;
    const std::size_t equals = name.find('=');
    if (equals != std::string::npos) {
      value = argv[i] + 2 + equals + 1;
      name.resize(equals);
    }
    const auto setter = known.find(name);
    if (setter == known.end()) usage(argv[0], "no option '" + name + "'", known);
    if (value == nullptr && ++i == argc) usage(argv[0], "'" + name + "' wants a value", known);
    setter->second(value != nullptr ? value : argv[i]);
  }
  if (options.threads < 1 || options.streams < 1 || options.nodes < 1)
    usage(argv[0], "at least 1 of each", known);
  options.start_file = start_file;
  return options;
}

}  // namespace workload
