// SPDX-License-Identifier: Apache-2.0
#include <catch2/catch_test_macros.hpp>

#include "collect/collector.h"
#include "test_rings.h"

using namespace pillion;
using namespace pillion::collect;

namespace {

struct Fixture {
  Fixture() : collector(3, shared.rings(), modules) {}
  pillion_launch numbered(std::uint16_t sequence) const {
    pillion_launch record = launch_record(sequence);
    record.header.sequence = sequence;
    return record;
  }
  TestRings shared{{}};
  ModuleStore modules;
  Collector collector;
  KeepingSink sink;
};

std::uint64_t missing(std::initializer_list<std::uint16_t> sequences) {
  SequenceCheck check;
  for (const std::uint16_t sequence : sequences) check.on_record(sequence);
  return check.missing;
}

}  // namespace

TEST_CASE("numbers without a gap are no anomaly, around the end of their range too") {
  CHECK(missing({1, 2, 3}) == 0);
  SequenceCheck check;
  for (std::uint32_t round = 0; round < 3; ++round) {
    for (std::uint32_t number = 1; number <= 0xffff; ++number)
      check.on_record(static_cast<std::uint16_t>(number));
  }
  CHECK(check.missing == 0);
}

TEST_CASE("a gap is as long as what is missing") {
  CHECK(missing({4}) == 3);  // the first three
  CHECK(missing({1, 2, 6, 7, 9}) == 3 + 1);
  SequenceCheck check;
  check.last = 0xfffe;
  check.on_record(2);  // without 65,535 and 1
  CHECK(check.missing == 2);
}

TEST_CASE("records without numbers, as a shim of minor 0 writes them, miss nothing") {
  CHECK(missing({0, 0, 0}) == 0);
}

TEST_CASE("what a reset ring held is counted when the next record comes") {
  Fixture f;
  TestProducer producer(f.shared.rings().events, 0);
  for (std::uint16_t i = 1; i <= 5; ++i) REQUIRE(producer.push(f.numbered(i)));
  (void)f.collector.drain(f.sink);
  for (std::uint16_t i = 6; i <= 12; ++i) REQUIRE(producer.push(f.numbered(i)));
  pillion_ring& ring = f.shared.rings().events.rings[0];
  const std::uint64_t head = ring.head;
  ring.head = head + (std::uint64_t{1} << 40);  // somebody wrote into it
  (void)f.collector.drain(f.sink);
  ring.head = head;  // the producer's own position is private, and comes back with its next record
  REQUIRE(producer.push(f.numbered(13)));
  (void)f.collector.drain(f.sink);
  CHECK(f.collector.counts().ring_resets == 2);
  CHECK(f.sink.launches.size() == 5);
  REQUIRE(producer.push(f.numbered(14)));
  (void)f.collector.drain(f.sink);
  CHECK(f.sink.launches.size() == 6);
  CHECK(f.collector.counts().records_missing == 8);
}

TEST_CASE("what a malformed record hides is counted when the next batch comes") {
  Fixture f;
  TestProducer producer(f.shared.rings().events, 0);
  REQUIRE(producer.push(f.numbered(1)));
  auto bad = f.numbered(2);
  bad.header.size = 12;
  REQUIRE(producer.push(bad));
  REQUIRE(producer.push(f.numbered(3)));
  (void)f.collector.drain(f.sink);
  CHECK(f.collector.counts().records_missing == 0);
  REQUIRE(producer.push(f.numbered(4)));
  (void)f.collector.drain(f.sink);
  CHECK(f.collector.counts().records_missing == 2);
  CHECK(f.collector.counts().events.malformed == 1);
}
