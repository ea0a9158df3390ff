// SPDX-License-Identifier: Apache-2.0
#include "pipeline/anomaly_log.h"

#include <catch2/catch_test_macros.hpp>
#include <string>
#include <vector>

namespace pillion::pipeline {
namespace {

struct Fixture {
  std::vector<std::string> lines;
  AnomalyLog log{[this](const std::string& line) { lines.push_back(line); }};
  profile::AnomalyCounts totals;
};

TEST_CASE("a kind is said when it occurs, then seldom, and with its total at the end") {
  Fixture f;
  f.log.note(f.totals, 1);
  CHECK(f.lines.empty());
  f.totals.join.evicted_unjoined = 3;
  f.log.note(f.totals, 2);
  REQUIRE(f.lines.size() == 1);
  CHECK(f.lines[0].starts_with("anomaly evicted_unjoined, 3 so far: "));
  for (std::uint64_t second = 0; second < 599; ++second) {
    ++f.totals.join.evicted_unjoined;
    f.log.note(f.totals, 2 + second * 1'000'000'000);
  }
  CHECK(f.lines.size() == 1);
  f.log.note(f.totals, 2 + AnomalyLog::kRepeatNs);
  REQUIRE(f.lines.size() == 2);
  CHECK(f.lines[1] == "anomaly evicted_unjoined, 602 so far");
  f.log.note(f.totals, 2 + 3 * AnomalyLog::kRepeatNs);  // has not grown
  CHECK(f.lines.size() == 2);
  ++f.totals.join.evicted_unjoined;
  f.log.finish(f.totals);
  REQUIRE(f.lines.size() == 3);
  CHECK(f.lines[2] == "anomaly evicted_unjoined, 603 so far");
}

TEST_CASE("kinds do not hold each other up, and the end repeats nothing") {
  Fixture f;
  f.totals.records_missing = 1;
  f.log.note(f.totals, 1);
  f.totals.clock_steps = 1;
  f.log.note(f.totals, 2);
  CHECK(f.lines.size() == 2);
  f.log.finish(f.totals);
  CHECK(f.lines.size() == 2);
  f.totals.ring_resets = 1;  // between the last look and the end
  f.log.finish(f.totals);
  REQUIRE(f.lines.size() == 3);
  CHECK(f.lines[2].find(": ") != std::string::npos);
}

}  // namespace
}  // namespace pillion::pipeline
