// SPDX-License-Identifier: Apache-2.0
#include "join/context_stacks.h"

#include <catch2/catch_test_macros.hpp>
#include <numeric>
#include <random>

namespace pillion::join {
namespace {

TEST_CASE("split_by_times conserves every unit and stays within one of the exact share") {
  std::mt19937_64 random(11);
  for (int round = 0; round < 2000; ++round) {
    std::vector<SeenStack> seen(1 + random() % 9);
    std::uint64_t total = 0;
    for (SeenStack& s : seen) total += s.times = 1 + random() % 1000;
    const std::uint64_t value = random() >> (random() % 60);
    std::vector<std::uint64_t> parts;
    split_by_times(value, seen, parts);
    REQUIRE(std::accumulate(parts.begin(), parts.end(), std::uint64_t{0}) == value);
    for (std::size_t i = 0; i < seen.size(); ++i) {
      const long double share = static_cast<long double>(value) * static_cast<long double>(seen[i].times) /
                                static_cast<long double>(total);
      REQUIRE(static_cast<long double>(parts[i]) > share - 1.001L);
      REQUIRE(static_cast<long double>(parts[i]) < share + 1.001L);
    }
  }
}

TEST_CASE("split_by_times gives the odd unit to the largest remainder") {
  std::vector<std::uint64_t> parts;
  split_by_times(10, std::vector<SeenStack>{{1, 1}, {2, 2}}, parts);  // 3.33 and 6.67
  CHECK(parts == std::vector<std::uint64_t>{3, 7});
  split_by_times(7, {}, parts);
  CHECK(parts.empty());
}

TEST_CASE("ContextStacks remembers how often, within its limits") {
  ContextStacks stacks(2, 2);
  CHECK(stacks.add(10, 1));
  CHECK(stacks.add(10, 1));
  CHECK(stacks.add(10, 2));
  CHECK_FALSE(stacks.add(10, 3));
  CHECK(stacks.add(20, 1));
  CHECK_FALSE(stacks.add(30, 1));
  REQUIRE(stacks.of(10).size() == 2);
  CHECK(stacks.of(10)[0].times == 2);
  CHECK(stacks.of(30).empty());
}

}  // namespace
}  // namespace pillion::join
