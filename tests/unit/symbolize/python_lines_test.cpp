// SPDX-License-Identifier: Apache-2.0
#include "symbolize/python_lines.h"

#include <catch2/catch_test_macros.hpp>
#include <fstream>
#include <random>
#include <sstream>
#include <string>
#include <vector>

using namespace pillion::symbolize;

namespace {

std::vector<std::byte> from_hex(const std::string& hex) {
  std::vector<std::byte> bytes;
  if (hex == "-") return bytes;
  for (std::size_t at = 0; at + 1 < hex.size(); at += 2)
    bytes.push_back(static_cast<std::byte>(std::stoul(hex.substr(at, 2), nullptr, 16)));
  return bytes;
}

// One code object of a fixture: its table, and the line that the interpreter gives for each two bytes.
struct Sample {
  std::string name;
  std::uint32_t first_line = 0;
  std::vector<std::byte> table;
  std::vector<long> lines;  // -1: none
};

std::vector<Sample> read_samples(const std::string& version) {
  std::ifstream file(std::string(PYTHON_LINES) + "/python-" + version + ".txt");
  std::vector<Sample> samples;
  std::string row;
  std::getline(file, row);  // what it is
  while (std::getline(file, row)) {
    std::istringstream words(row);
    Sample sample;
    std::string hex;
    words >> sample.name >> sample.first_line >> hex;
    sample.table = from_hex(hex);
    for (std::string run; words >> run;) {
      const auto by = run.find('x');
      sample.lines.insert(sample.lines.end(), std::stoul(run.substr(by + 1)), std::stol(run.substr(0, by)));
    }
    samples.push_back(std::move(sample));
  }
  return samples;
}

constexpr struct {
  const char* name;
  std::uint16_t version;
} kVersions[] = {
    {"3.9", 0x0309}, {"3.10", 0x030a}, {"3.11", 0x030b}, {"3.12", 0x030c}, {"3.13", 0x030d},
};

}  // namespace

TEST_CASE("each instruction's line is the one that the interpreter gives") {
  for (const auto& version : kVersions) {
    const auto samples = read_samples(version.name);
    std::size_t compared = 0;
    for (const auto& sample : samples) {
      const PythonLineTable table{version.version, sample.first_line, sample.table};
      for (std::size_t i = 0; i < sample.lines.size(); ++i, ++compared) {
        INFO("CPython " << version.name << ", " << sample.name << ", offset " << 2 * i);
        const long expected = sample.lines[i] < 0 ? 0 : sample.lines[i];
        REQUIRE(python_line(table, static_cast<std::int32_t>(2 * i)) == expected);
      }
      CHECK(python_line(table, -2) == sample.first_line);
    }
    CHECK(samples.size() > 14);
    CHECK(compared > 900);
  }
}

TEST_CASE("an offset behind a range table, or no table, has no line; lnotab goes on with its last") {
  for (const auto& version : kVersions) {
    const PythonLineTable none{version.version, 7, {}};
    const bool steps = version.version < 0x030a;
    CHECK(python_line(none, 0) == (steps ? 7 : 0));
    CHECK(python_line(none, -1) == 7);
    const auto sample = read_samples(version.name).front();
    const PythonLineTable table{version.version, sample.first_line, sample.table};
    const auto behind = python_line(table, 1 << 20);
    CHECK(behind == (steps ? static_cast<std::uint32_t>(sample.lines.back()) : 0));
  }
}

TEST_CASE("forged tables give some line, within what a line can be") {
  std::mt19937 random(1);
  for (int round = 0; round < 2'000; ++round) {
    std::vector<std::byte> bytes(random() % 300);
    for (auto& byte : bytes) byte = static_cast<std::byte>(round % 3 == 0 ? 0xff - random() % 2 : random());
    const auto version = static_cast<std::uint16_t>(0x0308 + random() % 8);
    const PythonLineTable table{version, static_cast<std::uint32_t>(random()), bytes};
    for (const std::int32_t offset : {0, 2, 100, 1'000'000, -5, std::numeric_limits<std::int32_t>::min()})
      CHECK(python_line(table, offset) <= 0x7fffffff);
  }
  // Steps that add up as far as they can.
  std::vector<std::byte> far;
  for (int i = 0; i < 20'000; ++i) {
    far.push_back(std::byte{0xe8});  // no columns, one unit
    for (int more = 0; more < 5; ++more) far.push_back(std::byte{0x7f});
    far.push_back(std::byte{0x3f});
  }
  CHECK(python_line({0x030b, 1, far}, 39'998) == 0);
}
