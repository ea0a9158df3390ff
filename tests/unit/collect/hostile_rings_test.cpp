// SPDX-License-Identifier: Apache-2.0
// Random bytes in place of rings, with heads that move while they are read. The fuzzer goes deeper; this runs
// everywhere.
#include <random>
#include <thread>

#include <catch2/catch_test_macros.hpp>

#include "base/clock.h"
#include "collect/collector.h"
#include "test_rings.h"

using namespace pillion;
using namespace pillion::collect;

namespace {

// Plausible often enough to get past the first check.
std::uint16_t some_type(std::mt19937_64& random) {
  constexpr std::uint16_t kTypes[] = {1, 2, 16, 17, 18, 19, 32, 33, 34, 64, 0, 99};
  return kTypes[random() % std::size(kTypes)];
}

void scribble(std::span<std::byte> bytes, std::mt19937_64& random) {
  for (std::size_t at = 0; at + 8 <= bytes.size(); at += 8) {
    pillion_record_header header{some_type(random), 0, static_cast<std::uint32_t>(random() % 40 * 8)};
    if (random() % 64 == 0) header.size = static_cast<std::uint32_t>(random());
    std::memcpy(bytes.data() + at, &header, sizeof(header));
  }
}

std::uint64_t some_head(std::uint64_t tail, std::uint32_t ring_bytes, std::mt19937_64& random) {
  switch (random() % 8) {
    case 0:
      return random();
    case 1:
      return tail - 8;
    case 2:
      return tail + ring_bytes + 8;
    case 3:
      return tail + ring_bytes;
    default:
      return tail + random() % ring_bytes / 8 * 8;
  }
}

}  // namespace

TEST_CASE("random rings: every byte is delivered, skipped or counted") {
  std::mt19937_64 random(20'251'129);
  for (int round = 0; round < 300; ++round) {
    const TestRings shared({});
    ModuleStore modules;
    Collector collector(1, shared.rings(), modules);
    SummingSink sink;
    for (int drains = 0; drains < 10; ++drains) {
      scribble(shared.events_data(), random);
      scribble(shared.stacks_data(), random);
      for (std::uint32_t ring = 0; ring < 2; ++ring) {
        pillion_ring& events = shared.rings().events.rings[ring];
        events.head = some_head(events.tail, 4'096, random);
        pillion_ring& stacks = shared.rings().stacks.rings[ring];
        stacks.head = some_head(stacks.tail, 16'384, random);
      }
      for (std::uint32_t slot = 0; slot < 4; ++slot) {
        pillion_module_slot& wire = shared.rings().arena.slots[slot];
        wire.state = static_cast<std::uint32_t>(random() % 3);
        wire.offset = random() % 3 == 0 ? random() : random() % 8'192;
        wire.bytes = random() % 3 == 0 ? random() : random() % 8'192;
      }
      const auto outcome = collector.drain(sink);
      REQUIRE(outcome.fullest <= 1.0);
      REQUIRE(outcome.bytes <= 2 * 4'096 + 2 * 16'384);
    }
    const CollectCounts& counts = collector.counts();
    REQUIRE(sink.records == counts.events.records + counts.stacks.records);
  }
}

TEST_CASE("a writer that breaks every rule while it is read harms nobody") {
  const TestRings shared({});
  ModuleStore modules;
  Collector collector(1, shared.rings(), modules);
  std::atomic<bool> stop{false};
  std::thread writer([&] {
    std::mt19937_64 random(7);
    while (!stop) {
      pillion_ring& ring = shared.rings().events.rings[random() % 2];
      const std::atomic_ref<std::uint64_t> head(ring.head);
      const std::atomic_ref<std::uint64_t> tail(ring.tail);
      head.store(some_head(tail.load(std::memory_order_relaxed), 4'096, random), std::memory_order_release);
    }
  });
  SummingSink sink;
  // Until the writer has really been at work, however the two are scheduled.
  const std::uint64_t end = monotonic_ns() + 60'000'000'000;
  while ((collector.counts().drains < 20'000 || collector.counts().ring_resets < 100) &&
         monotonic_ns() < end) {
    (void)collector.drain(sink);
  }
  stop = true;
  writer.join();
  CHECK(collector.counts().ring_resets >= 100);
}
