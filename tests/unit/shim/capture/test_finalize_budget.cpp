// SPDX-License-Identifier: Apache-2.0
#include "finalize_budget.h"

#include <catch2/catch_test_macros.hpp>

using pillion::shim::FinalizeBudget;

namespace {

int take_all(FinalizeBudget& budget, std::uint64_t now_ns) {
  int taken = 0;
  while (taken < 1000 && budget.take(now_ns)) ++taken;
  return taken;
}

}  // namespace

TEST_CASE("so many at once, then one at a time") {
  FinalizeBudget budget;
  const std::uint64_t start = 12'345;
  CHECK(take_all(budget, start) == FinalizeBudget::kAtOnce);
  CHECK_FALSE(budget.take(start + FinalizeBudget::kOneEachNs - 1));
  CHECK(take_all(budget, start + FinalizeBudget::kOneEachNs) == 1);
  CHECK(take_all(budget, start + 4 * FinalizeBudget::kOneEachNs) == 3);
}

TEST_CASE("parts of the time are not lost by asking") {
  FinalizeBudget budget;
  CHECK(take_all(budget, 0) == FinalizeBudget::kAtOnce);
  const std::uint64_t half = FinalizeBudget::kOneEachNs / 2;
  CHECK_FALSE(budget.take(half));
  CHECK(budget.take(2 * half));
  CHECK_FALSE(budget.take(3 * half));
  CHECK(budget.take(4 * half));
}

TEST_CASE("a year brings no more than the first day had") {
  FinalizeBudget budget;
  CHECK(take_all(budget, 0) == FinalizeBudget::kAtOnce);
  CHECK(take_all(budget, 365 * 24 * FinalizeBudget::kOneEachNs) == FinalizeBudget::kAtOnce);
}

TEST_CASE("one that did not come about is given back") {
  FinalizeBudget budget;
  CHECK(take_all(budget, 0) == FinalizeBudget::kAtOnce);
  budget.give_back();
  CHECK(take_all(budget, 1) == 1);
}
