// SPDX-License-Identifier: Apache-2.0
#include "flush_policy.h"

#include <catch2/catch_test_macros.hpp>

#include "capture_session.h"
#include "detach.h"
#include "fake_cupti.h"

using namespace pillion::shim;
using pillion::shim::test::FakeCupti;

namespace {

constexpr std::uint64_t kMs = 1'000'000;
constexpr std::uint64_t kTick = 100 * kMs;
constexpr std::uint64_t kCalmATick = FlushPolicy::kCalmRecordsPerSecond / 10;

}  // namespace

TEST_CASE("a session begins calm, and a slow one stays so") {
  FlushPolicy policy;
  policy.begin(kTick);
  CHECK_FALSE(policy.look(0, kTick));  // it has only begun
  CHECK(policy.allowed());
  CHECK(policy.look(kCalmATick, 2 * kTick));
  CHECK(policy.allowed());
}

TEST_CASE("no flush while records flood, and again from the first calm look on") {
  FlushPolicy policy;
  policy.begin(0);
  policy.look(kCalmATick + 1, kTick);
  CHECK_FALSE(policy.allowed());
  policy.look(3 * kCalmATick, 2 * kTick);
  CHECK_FALSE(policy.allowed());
  policy.look(3 * kCalmATick + 10, 3 * kTick);
  CHECK(policy.allowed());
}

TEST_CASE("two looks within a few milliseconds are one") {
  FlushPolicy policy;
  policy.begin(0);
  policy.look(10 * kCalmATick, kTick);
  policy.look(10 * kCalmATick, kTick + FlushPolicy::kLookNs - 1);  // nothing came: no proof of calm
  CHECK_FALSE(policy.allowed());
  policy.look(10 * kCalmATick, kTick + FlushPolicy::kLookNs);
  CHECK(policy.allowed());
}

TEST_CASE("the next session knows nothing of the flood of the one before") {
  FlushPolicy policy;
  policy.begin(0);
  policy.look(1'000'000'000, kTick);
  REQUIRE_FALSE(policy.allowed());
  policy.begin(5 * kTick);
  CHECK(policy.allowed());
  policy.look(1, 6 * kTick);  // counted anew
  CHECK(policy.allowed());
}

TEST_CASE("a capture thread that stood still for years does not overflow") {
  FlushPolicy policy;
  policy.begin(0);
  policy.look(FlushPolicy::kCalmRecordsPerSecond * 61, ~std::uint64_t{0} / 2);
  CHECK_FALSE(policy.allowed());
}

TEST_CASE("a detach that may not finalise flushes, but not while records flood") {
  FakeCupti fake;
  FinalizeBudget budget;
  const DetachSubject subject{&fake.api, nullptr, nullptr, 0, true, true, true, &budget};
  g_flush_policy.begin(0);
  CHECK(detach(subject, false, 0) == PILLION_RESIDUE_NOT_ASKED);
  CHECK(fake.count("flush 1") == 1);
  g_flush_policy.look(1'000'000'000, kTick);
  CHECK(detach(subject, false, 0) == PILLION_RESIDUE_NOT_ASKED);
  CHECK(fake.count("flush 1") == 1);
  g_flush_policy.begin(0);
}
