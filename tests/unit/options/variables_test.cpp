// SPDX-License-Identifier: Apache-2.0
// Walks the table of environment variables, and the sources for those that are not in it.
#include "variables.h"

#include <catch2/catch_test_macros.hpp>

#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <regex>
#include <set>
#include <string>

#include "flags.h"

namespace pillion {
namespace {

namespace fs = std::filesystem;

std::string contents(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

Result<std::variant<Options, Help>> parse(const std::vector<std::string>& arguments,
                                          const Environment& environment) {
  return parse_options(arguments, environment);
}

TEST_CASE("every variable is classified exactly once for every mode") {
  std::set<std::string> names;
  for (const auto& variable : variables()) {
    INFO(variable.name);
    CHECK(names.insert(variable.name).second);
    CHECK(*variable.help != '\0');
    CHECK((variable.applies & ~kAllModes) == 0);
    CHECK(variable.applies != 0);
    for (unsigned mode = 0; mode < kModes; ++mode) {
      INFO(to_string(static_cast<Mode>(mode)));
      CHECK(times_classified(variable.applies, variable.elsewhere, static_cast<Mode>(mode)) == 1);
    }
  }
}

// What the code reads is in the table, and what is in the table the code reads (or glibc and the driver do).
TEST_CASE("the table has every variable that the sources read, and no other") {
  const std::regex read(R"rx((?:getenv|variable|environment)\("([A-Z][A-Z0-9_]*)"\))rx");
  std::set<std::string> seen{"TMPDIR"};
  for (const char* folder : {"sidecar", "shim"}) {
    for (const auto& entry : fs::recursive_directory_iterator(fs::path(PILLION_SOURCE_ROOT) / folder)) {
      if (entry.path().extension() != ".cpp" && entry.path().extension() != ".h") continue;
      const auto text = contents(entry.path());
      for (std::sregex_iterator at(text.begin(), text.end(), read), end; at != end; ++at)
        seen.insert((*at)[1]);
    }
  }
  std::set<std::string> known;
  for (const auto& variable : variables()) known.insert(variable.name);
  CHECK(seen == known);
}

TEST_CASE("the sidecar's README lists every variable") {
  const auto text = contents(fs::path(PILLION_SOURCE_ROOT) / "sidecar" / "README.md");
  for (const auto& variable : variables()) {
    INFO(variable.name);
    CHECK(text.find(std::string("`") + variable.name + "`") != std::string::npos);
  }
}

TEST_CASE("a variable that is for another process stops no command") {
  Environment all;
  for (const auto& variable : variables()) all.emplace(variable.name, "nonsense");
  for (const std::vector<std::string>& arguments :
       {std::vector<std::string>{"install", "/x"}, {"probe", "live"}, {"serve"}, {"record"}}) {
    INFO(arguments[0]);
    CHECK(parse(arguments, all));
  }
}

TEST_CASE("what the log says of a variable without effect") {
  const Environment environment{{"PILLION_EAGER", "1"}, {"PILLION_SOCKET_DIR", "/s"}, {"TMPDIR", "/t"}};
  const auto own = idle_variables(environment, Mode::record_command);
  REQUIRE(own.size() == 1);
  CHECK(own[0].find("PILLION_SOCKET_DIR") == 0);
  CHECK(own[0].find("-socket-dir") != std::string::npos);
  const auto lines = idle_variables(environment, Mode::serve);
  REQUIRE(lines.size() == 1);
  CHECK(lines[0].find("PILLION_EAGER") == 0);
  CHECK(lines[0].find("the workload is started with") != std::string::npos);
}

TEST_CASE("a value for the command that record starts is refused where nobody would understand it") {
  const auto record = [](const char* name, const char* value) {
    return parse({"record", "--", "true"}, {{name, value}});
  };
  for (const auto& [name, value] : {std::pair{"PILLION_EAGER", "yes"},
                                    {"PILLION_ALLOW_UID", "root"},
                                    {"PILLION_ALLOW_UID", "1,"},
                                    {"PILLION_ALLOW_GID", "1 2"},
                                    {"CUDA_INJECTION64_PATH", "/opt/other/libtool.so"}}) {
    INFO(name << "=" << value);
    const auto result = record(name, value);
    REQUIRE_FALSE(result);
    CHECK(result.error().message().find(name) != std::string::npos);
    CHECK(result.error().message().find(value) != std::string::npos);
  }
  CHECK(record("PILLION_EAGER", "1"));
  CHECK(record("PILLION_ALLOW_UID", "0,65532"));
  const auto shim = record("CUDA_INJECTION64_PATH", "/installed/libpillion.so");
  REQUIRE(shim);
  CHECK(std::get<Options>(*shim).shim == "/installed/libpillion.so");
}

TEST_CASE("an empty variable is as good as none") {
  ::setenv("PILLION_SOCKET_DIR", "", 1);
  CHECK_FALSE(read_environment().contains("PILLION_SOCKET_DIR"));
  ::setenv("PILLION_SOCKET_DIR", "/s", 1);
  CHECK(read_environment().at("PILLION_SOCKET_DIR") == "/s");
  ::unsetenv("PILLION_SOCKET_DIR");
}

TEST_CASE("help names the variables that apply and no other") {
  for (unsigned mode = 0; mode < kModes; ++mode) {
    const auto text = variables_help(1u << mode);
    for (const auto& variable : variables()) {
      INFO(variable.name << " for " << to_string(static_cast<Mode>(mode)));
      const bool applies = (variable.applies >> mode) & 1u;
      CHECK((text.find(std::string("  ") + variable.name + " ") != std::string::npos) == applies);
    }
  }
}

}  // namespace
}  // namespace pillion
