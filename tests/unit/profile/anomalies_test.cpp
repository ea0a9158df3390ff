// SPDX-License-Identifier: Apache-2.0
#include "profile/anomalies.h"

#include <array>
#include <bit>
#include <catch2/catch_test_macros.hpp>
#include <cstring>
#include <set>
#include <string>

namespace pillion::profile {
namespace {

constexpr std::size_t kWords = sizeof(AnomalyCounts) / sizeof(std::uint64_t);
static_assert(sizeof(AnomalyCounts) % sizeof(std::uint64_t) == 0);

AnomalyCounts with_word(std::size_t word, std::uint64_t value) {
  std::array<std::uint64_t, kWords> words{};
  words[word] = value;
  return std::bit_cast<AnomalyCounts>(words);
}

TEST_CASE("the kinds are few, distinct, fit for a label, and say what they mean") {
  std::set<std::string> kinds;
  for (const AnomalyKind& kind : anomaly_kinds()) {
    CHECK(kinds.insert(kind.kind).second);
    CHECK(std::string(kind.kind).find_first_not_of("abcdefghijklmnopqrstuvwxyz_") == std::string::npos);
    CHECK(std::strlen(kind.meaning) > 20);
    CHECK(kind.total({}) == 0);
  }
  CHECK(kinds.size() < 64);
  CHECK(anomalies_of({}).empty());
}

TEST_CASE("each counter raises one kind at most, by itself, and no kind is without a counter") {
  std::set<std::string> raised;
  for (std::size_t word = 0; word < kWords; ++word) {
    const auto found = anomalies_of(with_word(word, 7));
    CHECK(found.size() <= 1);
    for (const Anomaly& anomaly : found) {
      CHECK(anomaly.total == 7);
      raised.insert(anomaly.kind);
    }
  }
  CHECK(raised.size() == anomaly_kinds().size());
}

TEST_CASE("what is normal is no anomaly") {
  AnomalyCounts counts;
  counts.join.launches = counts.join.joined = counts.join.executions = 1'000;
  counts.join.launched_before = 5;
  counts.join.launches_failed = 3;
  counts.join.pending = 9;
  counts.join.stacks_empty = 2;
  counts.shim.launches = 1'000;
  counts.shim.snapshots = 10;
  counts.shim.sampler_refused_budget = 4;
  CHECK(anomalies_of(counts).empty());
}

}  // namespace
}  // namespace pillion::profile
