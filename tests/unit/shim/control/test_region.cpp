// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <unistd.h>

#include <catch2/catch_test_macros.hpp>
#include <string>

#include "region.h"
#include "session_memory.h"
#include "shared_region.h"

using namespace pillion::shim;
using pillion::shim::test::RegionPlan;
using pillion::shim::test::SharedRegion;

namespace {

RegionWish wish_of(SharedRegion& region) {
  return {region.header().kind, region.bytes(), region.header().generation};
}

std::string problem_of(const RegionPlan& plan) {
  SharedRegion shared(plan);
  Region mapped;
  const char* problem = map_region(shared.fd(), wish_of(shared), &mapped);
  if (problem == nullptr) unmap_region(&mapped);
  return problem == nullptr ? "" : problem;
}

// The header as it should be, with one thing changed.
template <typename Change>
std::string header_problem(std::uint32_t kind, Change change) {
  SharedRegion shared({.kind = kind});
  pillion_region_header header = shared.header();
  const RegionWish wish = wish_of(shared);
  change(header);
  const char* problem = check_region_header(header, wish);
  return problem == nullptr ? "" : problem;
}

}  // namespace

TEST_CASE("a sound region is mapped, and what is written to it is seen on the other side") {
  for (const std::uint32_t kind : {PILLION_REGION_EVENTS, PILLION_REGION_STACKS, PILLION_REGION_ARENA}) {
    SharedRegion shared({.kind = kind});
    Region mapped;
    REQUIRE(map_region(shared.fd(), wish_of(shared), &mapped) == nullptr);
    static_cast<std::uint8_t*>(mapped.base)[mapped.bytes - 1] = 42;
    CHECK(shared.base()[shared.bytes() - 1] == 42);
    unmap_region(&mapped);
    CHECK(mapped.base == nullptr);
  }
}

TEST_CASE("a region is refused by what is wrong with it") {
  CHECK(problem_of({}) == "");
  for (int seals = 0; seals < 7; ++seals) {
    CHECK(problem_of({.seals = seals}) == "seals are not SHRINK|GROW|SEAL");
  }
  CHECK(problem_of({.ready = false}) == "header is not READY");
  CHECK(problem_of({.populate = false}) == "not populated");
}

TEST_CASE("descriptors that are no sealed memfd are refused") {
  Region mapped;
  const RegionWish wish{PILLION_REGION_EVENTS, 1 << 20, 1};
  CHECK(map_region(-1, wish, &mapped) != nullptr);
  for (const char* path : {"/dev/zero", "/dev/null", "/proc/self/exe", "/"}) {
    const int fd = ::open(path, O_RDONLY | O_CLOEXEC);
    REQUIRE(fd >= 0);
    CHECK(map_region(fd, wish, &mapped) != nullptr);
    ::close(fd);
  }
  CHECK(mapped.base == nullptr);
}

TEST_CASE("a stated size other than the file's is refused") {
  SharedRegion shared({});
  Region mapped;
  for (const std::uint64_t bytes : {std::uint64_t{0}, std::uint64_t{1}, shared.bytes() - 4096,
                                    shared.bytes() + 1, std::uint64_t{1} << 40, ~std::uint64_t{0}}) {
    CHECK(map_region(shared.fd(), {PILLION_REGION_EVENTS, bytes, 1}, &mapped) != nullptr);
  }
}

TEST_CASE("header fields are checked one by one, and none can lead outside") {
  using H = pillion_region_header;
  const auto events = [](auto change) { return header_problem(PILLION_REGION_EVENTS, change); };
  CHECK(events([](H&) {}) == "");
  CHECK(events([](H& h) { h.magic ^= 1; }) == "header magic");
  CHECK(events([](H& h) { h.major += 1; }) == "header major");
  CHECK(events([](H& h) { h.minor += 1; }) == "");
  CHECK(events([](H& h) { h.header_size = 64; }) == "header size");
  CHECK(events([](H& h) { h.header_size = 256; }) == "");
  CHECK(events([](H& h) { h.kind = PILLION_REGION_STACKS; }) == "header kind");
  CHECK(events([](H& h) { h.generation += 1; }) == "header generation");
  CHECK(events([](H& h) { h.region_bytes -= 1; }) == "header region_bytes");
  CHECK(events([](H& h) { h.ring_count = 0; }) == "ring_count");
  CHECK(events([](H& h) { h.ring_count = PILLION_RINGS_MAX + 1; }) == "ring_count");
  CHECK(events([](H& h) { h.ring_bytes = 0; }) == "ring_bytes");
  CHECK(events([](H& h) { h.ring_bytes = 48 * 1024; }) == "ring_bytes");
  CHECK(events([](H& h) { h.ring_bytes = 1u << 31; }) == "data_offset");
  CHECK(events([](H& h) { h.rings_offset = 0; }) == "rings_offset");
  CHECK(events([](H& h) { h.rings_offset += 8; }) == "rings_offset");
  CHECK(events([](H& h) { h.rings_offset = h.region_bytes - 64; }) == "rings_offset");
  CHECK(events([](H& h) { h.rings_offset = ~std::uint64_t{63}; }) == "rings_offset");
  CHECK(events([](H& h) { h.data_offset += 64; }) == "data_offset");
  CHECK(events([](H& h) { h.counters_offset = 0; }) == "counters_offset");
  CHECK(events([](H& h) { h.counters_offset = h.region_bytes - 448; }) == "counters_offset");
  CHECK(events([](H& h) { h.counters_offset = h.rings_offset; }) == "overlapping parts");
  CHECK(events([](H& h) { h.rings_offset = h.data_offset; }) == "overlapping parts");
  const auto arena = [](auto change) { return header_problem(PILLION_REGION_ARENA, change); };
  CHECK(arena([](H&) {}) == "");
  CHECK(arena([](H& h) { h.ring_count = 0; }) == "slot count");
  CHECK(arena([](H& h) { h.ring_count = 0xffffffffu; }) == "slot table");
  CHECK(arena([](H& h) { h.data_offset = h.region_bytes + 64; }) == "data_offset");
  CHECK(arena([](H& h) { h.ring_count = 1000; }) == "overlapping parts");
}

TEST_CASE(
    "a session's memory is taken, published, closed and taken again; a wrong region leaves nothing mapped") {
  for (std::uint64_t generation = 1; generation <= 20; ++generation) {
    SharedRegion events({.kind = PILLION_REGION_EVENTS, .generation = generation});
    SharedRegion stacks({.kind = PILLION_REGION_STACKS, .generation = generation});
    SharedRegion arena({.kind = PILLION_REGION_ARENA, .generation = generation});
    pillion_arm arm{};
    arm.generation = generation;
    arm.events_bytes = events.bytes();
    arm.stacks_bytes = stacks.bytes();
    arm.arena_bytes = arena.bytes();
    char problem[128];
    // Twice the same descriptor: the kinds in the headers differ.
    CHECK(open_memory({events.fd(), events.fd(), arena.fd()}, arm, problem) == nullptr);
    CHECK(std::string(problem).starts_with("stacks: "));
    SessionMemory* memory = open_memory({events.fd(), stacks.fd(), arena.fd()}, arm, problem);
    REQUIRE(memory != nullptr);
    count(memory->counters, 5, &pillion_counters::launches, generation);
    count(memory->counters, 6, &pillion_counters::launches, 1);
    set_gauge(memory->counters, &pillion_counters::sample_interval, 77);
    publish_counters(memory, 1234);
    CHECK(events.counter(&pillion_counters::launches) == generation + 1);
    CHECK(events.counter(&pillion_counters::sample_interval) == 77);
    CHECK(events.counter(&pillion_counters::last_tick_ns) == 1234);
    close_memory(memory, 0);
    CHECK(memory->events_region.base == nullptr);
    count(memory->counters, 5, &pillion_counters::launches);  // a callback that is late by a session
  }
}

TEST_CASE("a producer stuck in its ring keeps that mapping and no other; in the end memory is refused") {
  SharedRegion events({.kind = PILLION_REGION_EVENTS});
  SharedRegion stacks({.kind = PILLION_REGION_STACKS});
  SharedRegion arena({.kind = PILLION_REGION_ARENA});
  pillion_arm arm{};
  arm.generation = 1;
  arm.events_bytes = events.bytes();
  arm.stacks_bytes = stacks.bytes();
  arm.arena_bytes = arena.bytes();
  const SessionFds fds{events.fd(), stacks.fd(), arena.fd()};
  char problem[128];
  const auto tid = static_cast<std::uint32_t>(::gettid());
  std::vector<std::pair<SessionMemory*, Reservation>> stuck;
  for (SessionMemory* memory; (memory = open_memory(fds, arm, problem)) != nullptr;) {
    Reservation room;
    REQUIRE(memory->events.reserve(tid, 64, &room) == PushResult::ok);
    close_memory(memory, 1);
    REQUIRE(memory->events_region.base != nullptr);
    stuck.emplace_back(memory, room);
  }
  CHECK(stuck.size() == 4);
  CHECK(std::string(problem).find("still inside") != std::string::npos);
  for (auto& [memory, room] : stuck) {
    room.write(0, "late", 4);  // does not fault
    memory->events.commit(room, 64);
  }
  SessionMemory* memory = open_memory(fds, arm, problem);
  REQUIRE(memory != nullptr);
  close_memory(memory, 0);
}
