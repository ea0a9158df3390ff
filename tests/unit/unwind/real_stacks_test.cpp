// SPDX-License-Identifier: Apache-2.0
// Snapshots of this program's own stacks, frame by frame against the compiler's own unwinder.
#include <ucontext.h>

#include <catch2/catch_test_macros.hpp>
#include <functional>
#include <thread>

#include "capture.h"
#include "fake_file_source.h"
#include "modules.h"
#include "unwind/unwinder.h"

using namespace pillion;
using namespace pillion::unwind;
using namespace pillion::test;

namespace {

struct Fixture {
  FileTable files;
  FakeFileSource source;
  Unwinder unwinder{files, source};
};

// Frame 0 is compared by file only: the two unwinders looked at different instructions of it.
void require_same(const UnwoundStack& stack, const Capture& capture, bool rooted = true) {
  if (rooted) REQUIRE(stack.ending == StackEnding::rooted);
  REQUIRE(stack.frames.size() == capture.expected.size());
  for (std::size_t i = 1; i < stack.frames.size(); ++i) {
    REQUIRE(stack.frames[i].address == capture.expected[i].address);
    REQUIRE(stack.frames[i].is_return == capture.expected[i].is_return);
    REQUIRE(stack.frames[i].file != 0);
  }
}

struct Leaf {
  std::uint64_t stack_high;
  Capture capture;
};

void take(void* argument) {
  auto& leaf = *static_cast<Leaf*>(argument);
  capture_here(leaf.stack_high, leaf.capture);
}

std::vector<Capture> take_many(unsigned count, unsigned long seed) {
  std::vector<Capture> captures;
  const std::uint64_t high = own_stack_high();
  for (unsigned i = 0; i < count; ++i) {
    Leaf leaf{high, {}};
    descend_from_here(seed + i, 1 + i % 60, take, &leaf);
    captures.push_back(std::move(leaf.capture));
  }
  return captures;
}

}  // namespace

TEST_CASE("stacks of many shapes unwind as the compiler's unwinder does, to the root") {
  Fixture fixture;
  std::vector<Capture> captures;
  SECTION("on the main thread") { captures = take_many(1500, 1); }
  SECTION("on a thread") {
    std::thread thread([&] { captures = take_many(1500, 100000); });
    thread.join();
  }
  const auto maps = MapsTable::parse(own_maps());
  std::size_t frames = 0;
  for (const auto& capture : captures) {
    const auto outcome = fixture.unwinder.unwind(capture.snapshot, maps, 1);
    REQUIRE_FALSE(outcome.needs_newer_maps);
    require_same(outcome.stack, capture);
    frames += outcome.stack.frames.size();
  }
  const auto counters = fixture.unwinder.counters();
  CHECK(counters.endings[static_cast<std::size_t>(StackEnding::rooted)] == captures.size());
  CHECK(counters.frames == frames);
  CHECK(counters.rows_computed < frames / 4);
  CHECK(counters.files.unreadable == 0);
}

TEST_CASE("a second target with the same files shares their rows and numbers") {
  Fixture fixture;
  const auto captures = take_many(40, 7);
  const auto maps = MapsTable::parse(own_maps());
  for (const auto& capture : captures) (void)fixture.unwinder.unwind(capture.snapshot, maps, 1);
  const auto rows = fixture.unwinder.counters().rows_computed;
  const auto files = fixture.files.size();
  for (const auto& capture : captures)
    require_same(fixture.unwinder.unwind(capture.snapshot, maps, 2).stack, capture);
  CHECK(fixture.unwinder.counters().rows_computed == rows);
  CHECK(fixture.files.size() == files);
}

TEST_CASE("a full row cache evicts and stays right") {
  const auto captures = take_many(200, 900);
  const auto maps = MapsTable::parse(own_maps());
  FileTable files;
  FakeFileSource source;
  Unwinder unwinder(files, source, 16);
  for (const auto& capture : captures)
    require_same(unwinder.unwind(capture.snapshot, maps, 1).stack, capture);
  CHECK(unwinder.counters().rows_evicted > 100);
}

TEST_CASE("a library that was loaded after the maps were read asks for newer maps") {
  Fixture fixture;
  const auto captures = take_many(20, 50);
  std::string text;
  for (std::string rest = own_maps(); !rest.empty();) {
    const std::string line = rest.substr(0, rest.find('\n') + 1);
    rest.erase(0, line.size());
    if (line.find("shapes_") == std::string::npos) text += line;
  }
  const auto old_maps = MapsTable::parse(text);
  const auto maps = MapsTable::parse(own_maps());
  for (const auto& capture : captures) {
    const auto outcome = fixture.unwinder.unwind(capture.snapshot, old_maps, 1);
    REQUIRE(outcome.needs_newer_maps);
    REQUIRE(outcome.stack.ending == StackEnding::no_mapping);
    require_same(fixture.unwinder.unwind(capture.snapshot, maps, 1).stack, capture);
  }
}

TEST_CASE("a stack cut at the cap keeps its frames and says why it ended") {
  Fixture fixture;
  auto captures = take_many(60, 300);
  const auto maps = MapsTable::parse(own_maps());
  for (auto& capture : captures) {
    capture.snapshot.stack.resize(capture.snapshot.stack.size() / 2);
    capture.snapshot.truncated = true;
    const auto outcome = fixture.unwinder.unwind(capture.snapshot, maps, 1);
    REQUIRE(outcome.stack.ending == StackEnding::truncated_snapshot);
    REQUIRE(outcome.stack.frames.size() <= capture.expected.size());
    for (std::size_t i = 1; i < outcome.stack.frames.size(); ++i)
      REQUIRE(outcome.stack.frames[i].address == capture.expected[i].address);
    capture.snapshot.stack.clear();
    capture.snapshot.faulted = true;
    const auto leaf_only = fixture.unwinder.unwind(capture.snapshot, maps, 1);
    REQUIRE(leaf_only.stack.ending == StackEnding::faulted);
    REQUIRE(leaf_only.stack.frames.size() == 1);
  }
}

TEST_CASE(
    "without the files frames are named by file and offset, and the walk goes on by frame pointer or ends") {
  Fixture fixture;
  const auto captures = take_many(30, 4);
  const auto maps = MapsTable::parse(own_maps());
  for (const auto& mapping : maps.mappings()) fixture.source.instead[mapping.path] = "/nonexistent";
  for (const auto& capture : captures) {
    const auto outcome = fixture.unwinder.unwind(capture.snapshot, maps, 1);
    REQUIRE(outcome.stack.ending != StackEnding::rooted);
    REQUIRE_FALSE(outcome.stack.frames.empty());
    const auto file = fixture.files.find(outcome.stack.frames[0].file);
    REQUIRE(file != nullptr);
    REQUIRE_FALSE(file->content.valid());
  }
  CHECK(fixture.unwinder.counters().files.unreadable > 0);
}

namespace {

ucontext_t g_fiber;
ucontext_t g_back;
std::vector<char> g_fiber_stack;
Capture g_fiber_capture;

void run_fiber() {
  Leaf leaf{reinterpret_cast<std::uint64_t>(g_fiber_stack.data() + g_fiber_stack.size()), {}};
  descend_from_here(77, 12, take, &leaf);
  g_fiber_capture = std::move(leaf.capture);
}

}  // namespace

TEST_CASE("a fiber made by makecontext keeps all its frames and ends as a fiber") {
  Fixture fixture;
  g_fiber_stack.resize(4 << 20);
  getcontext(&g_fiber);
  g_fiber.uc_stack.ss_sp = g_fiber_stack.data();
  g_fiber.uc_stack.ss_size = g_fiber_stack.size();
  g_fiber.uc_link = &g_back;
  makecontext(&g_fiber, run_fiber, 0);
  swapcontext(&g_back, &g_fiber);
  g_fiber_capture.snapshot.foreign = true;
  const auto outcome = fixture.unwinder.unwind(g_fiber_capture.snapshot, MapsTable::parse(own_maps()), 1);
  REQUIRE(outcome.stack.ending == StackEnding::fiber);
  require_same(outcome.stack, g_fiber_capture, false);
}
