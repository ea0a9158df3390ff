// SPDX-License-Identifier: Apache-2.0
#include "collect/collector.h"

#include <thread>

#include <catch2/catch_test_macros.hpp>

#include "test_rings.h"

using namespace pillion;
using namespace pillion::collect;

namespace {

struct Fixture {
  explicit Fixture(TestRings::Sizes sizes = {}) : shared(sizes), collector(3, shared.rings(), modules) {}
  TestRings shared;
  ModuleStore modules;
  Collector collector;
  KeepingSink sink;
};

void fill_slot(const TestRings& shared, std::uint32_t slot, std::uint32_t module, std::uint64_t offset,
               std::uint64_t bytes) {
  pillion_module_slot& wire = shared.rings().arena.slots[slot];
  wire.origin = PILLION_MODULE_PROFILED;
  wire.module = module;
  wire.context = 1;
  wire.offset = offset;
  wire.bytes = bytes;
  std::atomic_ref<std::uint32_t>(wire.state).store(PILLION_SLOT_FULL, std::memory_order_release);
}

}  // namespace

TEST_CASE("an empty drain delivers nothing") {
  Fixture f;
  const auto outcome = f.collector.drain(f.sink);
  CHECK(outcome.bytes == 0);
  CHECK_FALSE(outcome.again());
  CHECK(f.sink.launches.empty());
}

TEST_CASE("records wrap around the end of a ring for many rounds") {
  Fixture f;
  TestProducer producer(f.shared.rings().events, 0);
  auto name = make_record<pillion_name>(PILLION_RECORD_NAME);
  std::uint32_t pushed = 0;
  for (std::uint32_t round = 0; round < 500; ++round) {
    const std::string text(1 + round % 97, 'n');
    name.id = round;
    name.length = static_cast<std::uint32_t>(text.size());
    REQUIRE(producer.push(with_tail(name, std::as_bytes(std::span(text)))));
    for (std::uint32_t i = 0; i < round % 40; ++i) REQUIRE(producer.push(launch_record(pushed++)));
    (void)f.collector.drain(f.sink);
    REQUIRE(f.sink.names.back().name == text);
  }
  REQUIRE(f.sink.launches.size() == pushed);
  for (std::uint32_t i = 0; i < pushed; ++i) REQUIRE(f.sink.launches[i].correlation == i);
  CHECK(f.collector.counts().events.malformed == 0);
  CHECK(f.collector.counts().ring_resets == 0);
}

TEST_CASE("a full ring is emptied whole and asks for the next drain at once") {
  Fixture f({1, 4'800 / 4'800 * 4'096, 1, 16'384, 1, 4'096});
  TestProducer producer(f.shared.rings().events, 0);
  std::uint32_t pushed = 0;
  while (producer.push(launch_record(pushed))) ++pushed;
  CHECK(pushed == 4'096 / sizeof(pillion_launch));
  const auto outcome = f.collector.drain(f.sink);
  CHECK(outcome.again());
  CHECK(outcome.fullest > 0.9);
  CHECK(f.sink.launches.size() == pushed);
  CHECK(producer.push(launch_record(0)));
  CHECK_FALSE(f.collector.drain(f.sink).again());
}

TEST_CASE("a launch comes after its snapshot") {
  struct Order final : RecordSink {
    void on_launch(const RawLaunch& launch) override {
      if (launch.correlation > newest_snapshot) ++too_early;
      ++launches;
    }
    void on_snapshot(RawSnapshot snapshot) override { newest_snapshot = snapshot.correlation; }
    void on_launch_failed(const RawLaunchFailed&) override {}
    void on_returned(const RawReturned&) override {}
    void on_sync(const RawSync&) override {}
    void on_execution(const RawExecution&) override {}
    void on_overhead(const RawOverhead&) override {}
    void on_name(RawName) override {}
    void on_thread(RawThread) override {}
    void on_device(RawDevice) override {}
    void on_context(const RawContext&) override {}
    void on_python_code(RawPythonCode) override {}
    std::uint32_t newest_snapshot = 0;
    std::uint32_t too_early = 0;
    std::uint32_t launches = 0;
  } order;
  constexpr std::uint32_t kLaunches = 20'000;
  Fixture f;
  std::thread producer([&] {
    TestProducer events(f.shared.rings().events, 0);
    TestProducer stacks(f.shared.rings().stacks, 1);
    const std::vector<std::byte> stack(64);
    for (std::uint32_t i = 1; i <= kLaunches; ++i) {
      while (!stacks.push(snapshot_record(i, stack))) std::this_thread::yield();
      while (!events.push(launch_record(i))) std::this_thread::yield();
    }
  });
  while (order.launches < kLaunches) {
    if (f.collector.drain(order).bytes == 0) std::this_thread::yield();
  }
  producer.join();
  CHECK(order.too_early == 0);
}

TEST_CASE("an impossible head resets its ring, is counted, and the ring goes on from there") {
  Fixture f;
  TestProducer other(f.shared.rings().events, 1);
  pillion_ring& ring = f.shared.rings().events.rings[0];
  TestProducer first(f.shared.rings().events, 0);
  REQUIRE(first.push(launch_record(1)));
  (void)f.collector.drain(f.sink);
  SECTION("below tail") { ring.head = 8; }
  SECTION("past capacity") { ring.head = sizeof(pillion_launch) + 4'096 + 8; }
  SECTION("far") { ring.head = ~std::uint64_t{0} - 7; }
  SECTION("between words") { ring.head = sizeof(pillion_launch) + 3; }
  REQUIRE(other.push(launch_record(2)));
  (void)f.collector.drain(f.sink);
  CHECK(f.collector.counts().ring_resets == 1);
  CHECK(f.sink.launches.size() == 2);  // the other ring is not touched
  CHECK(ring.tail == ring.head - ring.head % 8);
  ring.head = ring.tail;
  TestProducer again(f.shared.rings().events, 0);
  REQUIRE(again.push(launch_record(3)));
  (void)f.collector.drain(f.sink);
  REQUIRE(f.sink.launches.size() == 3);
  CHECK(f.sink.launches.back().correlation == 3);
}

TEST_CASE("a malformed record costs its batch only") {
  Fixture f;
  TestProducer producer(f.shared.rings().events, 0);
  auto bad = launch_record(1);
  bad.header.size = 12;
  REQUIRE(producer.push(bad));
  REQUIRE(producer.push(launch_record(2)));
  (void)f.collector.drain(f.sink);
  CHECK(f.collector.counts().events.malformed == 1);
  CHECK(f.sink.launches.empty());
  REQUIRE(producer.push(launch_record(3)));
  (void)f.collector.drain(f.sink);
  CHECK(f.sink.launches.size() == 1);
}

TEST_CASE("modules are copied out byte for byte and their slots given back") {
  Fixture f;
  for (std::size_t i = 0; i < 8'192; ++i) f.shared.arena()[i] = static_cast<std::byte>(i * 7);
  fill_slot(f.shared, 0, 40, 0, 5'000);
  fill_slot(f.shared, 3, 41, 5'000, 3'192);
  (void)f.collector.drain(f.sink);
  const auto first = f.modules.find(3, 40);
  REQUIRE(first != nullptr);
  CHECK(first->context == 1);
  CHECK(std::equal(first->bytes.begin(), first->bytes.end(), f.shared.arena()));
  CHECK(first->bytes.size() == 5'000);
  REQUIRE(f.modules.find(3, 41) != nullptr);
  CHECK(f.modules.find(4, 40) == nullptr);  // another target
  CHECK(f.shared.rings().arena.slots[0].state == PILLION_SLOT_EMPTY);
  CHECK(f.collector.counts().modules == 2);
}

TEST_CASE("slots that reach out of the arena, or are in no known state, are counted and given back") {
  Fixture f;
  fill_slot(f.shared, 0, 1, 8'192, 1);
  fill_slot(f.shared, 1, 2, ~0ull, 2);
  fill_slot(f.shared, 2, 3, 8, ~0ull);
  f.shared.rings().arena.slots[3].state = 77;
  (void)f.collector.drain(f.sink);
  CHECK(f.collector.counts().bad_slots == 4);
  CHECK(f.modules.counts().modules == 0);
  for (int i = 0; i < 4; ++i) CHECK(f.shared.rings().arena.slots[i].state == PILLION_SLOT_EMPTY);
}

TEST_CASE("an unloaded module comes without bytes and what is held stays") {
  Fixture f;
  fill_slot(f.shared, 0, 40, 0, 16);
  (void)f.collector.drain(f.sink);
  fill_slot(f.shared, 0, 40, ~0ull, ~0ull);
  f.shared.rings().arena.slots[0].origin = PILLION_MODULE_UNLOADED;
  (void)f.collector.drain(f.sink);
  CHECK(f.collector.counts().bad_slots == 0);
  CHECK(f.modules.counts().unloaded == 1);
  CHECK(f.modules.find(3, 40) != nullptr);
}

TEST_CASE("released rings are held no longer, and what was counted stays") {
  ModuleStore modules;
  TestRings shared(TestRings::Sizes{});
  auto rings = shared.rings();
  const auto memory = std::make_shared<int>(0);
  rings.memory = memory;
  Collector collector(3, std::move(rings), modules);
  TestProducer producer(shared.rings().events, 0);
  REQUIRE(producer.push(launch_record(1)));
  KeepingSink sink;
  (void)collector.drain(sink);
  const_cast<pillion_counters*>(shared.rings().counters)->launches = 1;
  CHECK(memory.use_count() == 2);
  collector.release();
  CHECK(memory.use_count() == 1);
  CHECK(collector.shim_counters().read().launches == 1);
  REQUIRE(producer.push(launch_record(2)));
  CHECK(collector.drain(sink).bytes == 0);
  CHECK(sink.launches.size() == 1);
}
