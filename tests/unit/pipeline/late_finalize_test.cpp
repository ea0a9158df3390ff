// SPDX-License-Identifier: Apache-2.0
#include "pipeline/late_finalize.h"

#include <catch2/catch_test_macros.hpp>

#include "abi/pillion_abi.h"

using pillion::pipeline::LateFinalize;

namespace {
constexpr std::uint64_t kStart = 1'000'000'000'000;

// Whether it is due within a few looks of a process that uses so much in each.
bool due(LateFinalize& late, std::uint64_t now, std::uint64_t used_in_a_look = LateFinalize::kWorksNs) {
  std::uint64_t used = 77;
  for (int look = 0; look < 4; ++look) {
    used += used_in_a_look;
    if (late.due(now + static_cast<std::uint64_t>(look) * LateFinalize::kLookNs, [&] { return used; }))
      return true;
  }
  return false;
}
}  // namespace

TEST_CASE("a program that made no call is tried again, less and less often") {
  LateFinalize late;
  CHECK_FALSE(due(late, kStart));
  std::uint64_t now = kStart;
  for (const std::uint64_t seconds : {5, 10, 20, 40, 80, 160, 320, 600, 600}) {
    late.detached(PILLION_RESIDUE_NO_API_CALL, true, now);
    now += seconds * 1'000'000'000;
    CHECK_FALSE(due(late, now - 4 * LateFinalize::kLookNs));
    CHECK(due(late, now));
    late.trying();
    CHECK_FALSE(due(late, now));
  }
  late.detached(PILLION_RESIDUE_FINALIZED, true, now);
  CHECK_FALSE(due(late, now + LateFinalize::kLongestWaitNs));
  late.detached(PILLION_RESIDUE_NO_API_CALL, true, now);
  CHECK(due(late, now + LateFinalize::kFirstWaitNs));
}

TEST_CASE("a program that was finalized often is tried as often as may be") {
  LateFinalize late;
  for (int i = 0; i < 5; ++i) {
    late.detached(PILLION_RESIDUE_FINALIZED_OFTEN, true, kStart);
    CHECK_FALSE(due(late, kStart + LateFinalize::kLongestWaitNs - 4 * LateFinalize::kLookNs));
    CHECK(due(late, kStart + LateFinalize::kLongestWaitNs));
  }
}

TEST_CASE("what would be refused again is not tried, nor what nobody asked for") {
  LateFinalize late;
  for (const std::uint32_t residue :
       {PILLION_RESIDUE_GRAPHS, PILLION_RESIDUE_NOT_ASKED, PILLION_RESIDUE_FOREIGN,
        PILLION_RESIDUE_DISABLED_BEFORE, PILLION_RESIDUE_OLD_CUPTI}) {
    late.detached(residue, true, kStart);
    CHECK_FALSE(due(late, kStart + LateFinalize::kLongestWaitNs));
  }
  late.detached(PILLION_RESIDUE_NO_API_CALL, false, kStart);
  CHECK_FALSE(due(late, kStart + LateFinalize::kLongestWaitNs));
  late.detached(PILLION_RESIDUE_NO_API_CALL, true, kStart);
  late.refused();
  CHECK_FALSE(due(late, kStart + LateFinalize::kLongestWaitNs));
}

TEST_CASE("an idle program is left alone until it works") {
  LateFinalize late;
  late.detached(PILLION_RESIDUE_NO_API_CALL, true, kStart);
  const std::uint64_t later = kStart + LateFinalize::kFirstWaitNs;
  CHECK_FALSE(due(late, later, LateFinalize::kWorksNs - 1));
  CHECK_FALSE(late.due(later + LateFinalize::kLongestWaitNs, [] { return std::uint64_t{0}; }));  // it is gone
  CHECK(due(late, later + 2 * LateFinalize::kLongestWaitNs));
}

TEST_CASE("the processor time is asked for once in a look, and not before the wait is over") {
  LateFinalize late;
  int asked = 0;
  const auto used = [&] { return std::uint64_t(++asked) * LateFinalize::kWorksNs; };
  late.detached(PILLION_RESIDUE_NO_API_CALL, true, kStart);
  CHECK_FALSE(late.due(kStart + 1, used));
  CHECK(asked == 0);
  const std::uint64_t later = kStart + LateFinalize::kFirstWaitNs;
  CHECK_FALSE(late.due(later, used));
  CHECK_FALSE(late.due(later + LateFinalize::kLookNs - 1, used));
  CHECK(asked == 1);
  CHECK(late.due(later + LateFinalize::kLookNs, used));
  CHECK(asked == 2);
}
