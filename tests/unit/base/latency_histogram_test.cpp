// SPDX-License-Identifier: Apache-2.0
#include "base/latency_histogram.h"

#include <catch2/catch_test_macros.hpp>
#include <cmath>
#include <random>
#include <vector>

namespace pillion {
namespace {

TEST_CASE("an empty histogram has nothing") {
  const LatencyHistogram none;
  CHECK(none.count() == 0);
  CHECK(none.percentile(50) == 0);
  CHECK(none.min_ns() == 0);
  CHECK(none.max_ns() == 0);
}

TEST_CASE("one value is its own percentile, whatever its size") {
  for (const std::uint64_t value :
       {0ull, 1ull, 31ull, 32ull, 33ull, 1'000'000ull, (1ull << 40) - 1, 1ull << 40, ~0ull}) {
    LatencyHistogram h;
    h.add(value);
    CHECK(h.percentile(1) == value);
    CHECK(h.percentile(50) == value);
    CHECK(h.percentile(99) == value);
    CHECK(h.min_ns() == value);
    CHECK(h.max_ns() == value);
  }
}

TEST_CASE("percentiles are within 1.6 % of those of the sorted values") {
  std::mt19937_64 random(7);
  for (const double spread : {0.1, 1.0, 4.0}) {
    std::lognormal_distribution<double> draw(std::log(50'000.0), spread);
    LatencyHistogram h;
    std::vector<std::uint64_t> values;
    std::uint64_t sum = 0;
    for (int i = 0; i < 20'001; ++i) {
      values.push_back(static_cast<std::uint64_t>(draw(random)));
      h.add(values.back());
      sum += values.back();
    }
    std::sort(values.begin(), values.end());
    CHECK(h.count() == values.size());
    CHECK(h.sum_ns() == sum);
    CHECK(h.min_ns() == values.front());
    CHECK(h.max_ns() == values.back());
    for (const unsigned percent : {1u, 50u, 90u, 99u, 100u}) {
      const auto rank = (values.size() * percent + 99) / 100;
      const auto exact = static_cast<double>(values[rank - 1]);
      CHECK(std::abs(static_cast<double>(h.percentile(percent)) - exact) <= exact / 64 + 1);
    }
  }
}

TEST_CASE("powers of two: bounds, and where the rest goes") {
  LatencyHistogram h;
  h.add(0);
  h.add(1);
  h.add(2);
  h.add(3);
  h.add(4);
  h.add(1023);
  h.add(1024);
  h.add((1ull << 40) - 1);
  h.add(1ull << 40);
  h.add(1ull << 50);
  const auto counts = h.by_power_of_two();
  REQUIRE(counts.size() == 41);
  CHECK(counts[0] == 2);
  CHECK(counts[1] == 2);
  CHECK(counts[2] == 1);
  CHECK(counts[9] == 1);
  CHECK(counts[10] == 1);
  CHECK(counts[39] == 1);
  CHECK(counts[40] == 2);
}

TEST_CASE("two histograms put together are one of all values") {
  LatencyHistogram low, high, all;
  for (std::uint64_t i = 0; i < 1000; ++i) {
    low.add(i);
    high.add(i * 1'000'000);
    all.add(i);
    all.add(i * 1'000'000);
  }
  LatencyHistogram sum = high;  // grows downwards
  sum.merge(low);
  sum.merge({});
  CHECK(sum.count() == all.count());
  CHECK(sum.sum_ns() == all.sum_ns());
  CHECK(sum.min_ns() == all.min_ns());
  CHECK(sum.by_power_of_two() == all.by_power_of_two());
  for (unsigned percent = 1; percent <= 100; ++percent)
    CHECK(sum.percentile(percent) == all.percentile(percent));
}

}  // namespace
}  // namespace pillion
