// SPDX-License-Identifier: Apache-2.0
#include "base/flat_map.h"

#include <catch2/catch_test_macros.hpp>
#include <random>
#include <unordered_map>

#include "base/stack_table.h"

namespace pillion {
namespace {

struct Crowded {  // few homes: long runs, wrapping at the end of the table
  std::uint64_t operator()(std::uint64_t key) const { return (key % 7) * 31 + 40; }
};

template <typename Hash>
void compare_with_the_standard(std::uint64_t keys) {
  FlatMap<std::uint64_t, std::uint64_t, Hash> flat;
  std::unordered_map<std::uint64_t, std::uint64_t> standard;
  std::mt19937_64 random(keys);
  for (int step = 0; step < 60'000; ++step) {
    const std::uint64_t key = random() % keys;
    switch (random() % 3) {
      case 0: {
        const auto [value, made] = flat.insert(key);
        REQUIRE(made == !standard.contains(key));
        *value = standard[key] = random();
        break;
      }
      case 1:
        REQUIRE(flat.erase(key) == (standard.erase(key) == 1));
        break;
      default: {
        const auto found = standard.find(key);
        const std::uint64_t* value = flat.find(key);
        REQUIRE((value != nullptr) == (found != standard.end()));
        if (value != nullptr) REQUIRE(*value == found->second);
      }
    }
    REQUIRE(flat.size() == standard.size());
  }
  std::size_t visited = 0;
  flat.for_each([&](std::uint64_t key, std::uint64_t& value) {
    ++visited;
    REQUIRE(standard.at(key) == value);
  });
  REQUIRE(visited == standard.size());
}

TEST_CASE("FlatMap does what std::unordered_map does") {
  compare_with_the_standard<Mix64>(40);
  compare_with_the_standard<Mix64>(5000);
  compare_with_the_standard<Crowded>(60);
}

UnwoundStack stack_of(std::uint64_t address, StackEnding ending = StackEnding::rooted) {
  return {{{1, address, true}, {2, address + 1, true}}, ending};
}

TEST_CASE("StackTable gives equal stacks one id and reads them back") {
  StackTable table;
  const StackId a = table.intern(stack_of(10));
  const StackId b = table.intern(stack_of(20));
  const StackId fiber = table.intern(stack_of(10, StackEnding::fiber));
  CHECK(a != 0);
  CHECK(a != b);
  CHECK(a != fiber);
  CHECK(table.intern(stack_of(10)) == a);
  CHECK(table.stack(b).frames == stack_of(20).frames);
  CHECK(table.stack(fiber).ending == StackEnding::fiber);
  CHECK(table.stack(0).frames.empty());
  CHECK(table.stack(999).frames.empty());
}

TEST_CASE("StackTable is bounded by stacks and by frames, and counts what it refuses") {
  StackTable few({.stacks_max = 2, .frames_max = 100});
  CHECK(few.intern(stack_of(1)) != 0);
  CHECK(few.intern(stack_of(2)) != 0);
  CHECK(few.intern(stack_of(3)) == 0);
  CHECK(few.intern(stack_of(1)) != 0);
  CHECK(few.refused() == 1);
  StackTable shallow({.stacks_max = 100, .frames_max = 3});
  CHECK(shallow.intern(stack_of(1)) != 0);
  CHECK(shallow.intern(stack_of(2)) == 0);
}

}  // namespace
}  // namespace pillion
