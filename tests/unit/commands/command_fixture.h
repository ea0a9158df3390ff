// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <signal.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <future>
#include <iterator>
#include <string>
#include <vector>

#include <catch2/catch_test_macros.hpp>

#include "commands/commands.h"
#include "commands/fake_runtime.h"

namespace pillion::commands {

[[nodiscard]] inline std::string contents(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

inline void write_file(const std::filesystem::path& path, const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
}

// A folder for the test's files, commands on a fake runtime, and signals to this process that only a command
// takes.
class CommandFixture {
 public:
  CommandFixture() {
    std::string name = (std::filesystem::temp_directory_path() / "pillion-test-XXXXXX").string();
    REQUIRE(::mkdtemp(name.data()) != nullptr);
    folder = name;
    sigset_t taken;
    ::sigemptyset(&taken);
    for (const int signal : {SIGINT, SIGTERM, SIGHUP}) ::sigaddset(&taken, signal);
    ::pthread_sigmask(SIG_BLOCK, &taken, nullptr);
    ::unsetenv("PILLION_SOCKET_DIR");
  }
  ~CommandFixture() { std::filesystem::remove_all(folder); }

  [[nodiscard]] RuntimeFactory factory() {
    return [this](const Options& options) { return std::make_unique<FakeRuntime>(script, options); };
  }

  // Runs a command line on a thread of its own; log lines below errors are left out.
  [[nodiscard]] std::future<int> start(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin() + (arguments.empty() ? 0 : 1), {"-log-level", "error"});
    return std::async(std::launch::async, [this, arguments] { return run(arguments, factory()); });
  }

  // As start(), with the folder as the place of the shim.
  [[nodiscard]] std::future<int> start_record(const std::vector<std::string>& arguments) {
    auto options = parse_options(arguments, {});
    REQUIRE(options);
    set_log_level(LogLevel::error);
    return std::async(std::launch::async, [this, parsed = std::get<Options>(*options)] {
      return record(parsed, factory(), folder);
    });
  }

  std::filesystem::path folder;
  FakeScript script;
};

// Waits up to 10 s.
template <typename Value>
[[nodiscard]] bool finished(std::future<Value>& future) {
  return future.wait_for(std::chrono::seconds(10)) == std::future_status::ready;
}

}  // namespace pillion::commands
