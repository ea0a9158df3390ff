// SPDX-License-Identifier: Apache-2.0
#include "session/maps_assembly.h"

#include <catch2/catch_test_macros.hpp>

using pillion::session::MapsAssembly;
using Outcome = MapsAssembly::Outcome;

TEST_CASE("pieces become one text") {
  MapsAssembly assembly;
  CHECK(assembly.add({4, 0, false, "one\n"}) == Outcome::incomplete);
  CHECK(assembly.add({4, 1, false, "two\n"}) == Outcome::incomplete);
  CHECK_FALSE(assembly.take().has_value());
  CHECK(assembly.add({4, 2, true, "three\n"}) == Outcome::complete);
  const auto maps = assembly.take();
  REQUIRE(maps.has_value());
  CHECK(maps->generation == 4);
  CHECK(maps->text == "one\ntwo\nthree\n");
  CHECK_FALSE(assembly.take().has_value());
}

TEST_CASE("a repeated piece is ignored, also after the last") {
  MapsAssembly assembly;
  CHECK(assembly.add({4, 0, false, "one\n"}) == Outcome::incomplete);
  CHECK(assembly.add({4, 0, false, "one\n"}) == Outcome::repeated);
  CHECK(assembly.add({4, 1, true, "two\n"}) == Outcome::complete);
  CHECK(assembly.add({4, 1, true, "two\n"}) == Outcome::repeated);
  CHECK(assembly.take()->text == "one\ntwo\n");
}

TEST_CASE("a missing piece breaks the text, and a new first piece begins anew") {
  MapsAssembly assembly;
  CHECK(assembly.add({4, 0, false, "one\n"}) == Outcome::incomplete);
  CHECK(assembly.add({4, 2, false, "three\n"}) == Outcome::broken);
  CHECK(assembly.add({4, 3, true, "four\n"}) == Outcome::repeated);
  CHECK_FALSE(assembly.take().has_value());
  CHECK(assembly.add({4, 0, true, "again\n"}) == Outcome::complete);
  CHECK(assembly.take()->text == "again\n");
}

TEST_CASE("a piece of another generation in the middle breaks it; a first piece replaces it") {
  MapsAssembly assembly;
  CHECK(assembly.add({4, 0, false, "one\n"}) == Outcome::incomplete);
  CHECK(assembly.add({5, 1, true, "two\n"}) == Outcome::broken);
  CHECK(assembly.add({4, 0, false, "one\n"}) == Outcome::incomplete);
  CHECK(assembly.add({6, 0, true, "new\n"}) == Outcome::complete);
  CHECK(assembly.take()->generation == 6);
}

TEST_CASE("no first piece at all") {
  MapsAssembly assembly;
  CHECK(assembly.add({1, 1, true, "x\n"}) == Outcome::broken);
}

TEST_CASE("text past the limit is dropped") {
  MapsAssembly assembly;
  const std::string piece(65'000, 'x');
  std::uint32_t index = 0;
  std::size_t total = 0;
  Outcome outcome = Outcome::incomplete;
  while (outcome == Outcome::incomplete) {
    outcome = assembly.add({1, index++, false, piece});
    if (outcome == Outcome::incomplete) total += piece.size();
  }
  CHECK(outcome == Outcome::too_large);
  CHECK(total <= MapsAssembly::kBytesMax);
  CHECK(total > MapsAssembly::kBytesMax - piece.size());
  CHECK(assembly.add({1, index, true, "x\n"}) == Outcome::repeated);
  CHECK_FALSE(assembly.take().has_value());
}
