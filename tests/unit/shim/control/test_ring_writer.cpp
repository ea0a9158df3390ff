// SPDX-License-Identifier: Apache-2.0
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <catch2/catch_test_macros.hpp>
#include <cstring>
#include <memory>
#include <set>
#include <thread>
#include <vector>

#include "ring_writer.h"
#include "shared_region.h"
#include "system_calls.h"

using namespace pillion::shim;
using pillion::shim::test::RegionPlan;
using pillion::shim::test::SharedRegion;

namespace {

// A closed set is all zeroes, as in the memory the shim keeps it in.
std::unique_ptr<RingSet> make_rings() { return std::unique_ptr<RingSet>(new RingSet{}); }

pillion_launch launch(std::uint32_t tid, std::uint32_t sequence) {
  pillion_launch made{};
  made.header = {PILLION_RECORD_LAUNCH, 0, sizeof made};
  made.correlation = sequence;
  made.tid = tid;
  made.context_key = std::uint64_t{tid} << 32 | sequence;
  return made;
}

pillion_launch as_launch(const std::vector<std::uint8_t>& record) {
  pillion_launch out{};
  REQUIRE(record.size() == sizeof out);
  std::memcpy(&out, record.data(), sizeof out);
  return out;
}

}  // namespace

TEST_CASE("a closed set takes nothing") {
  const auto rings = make_rings();
  const pillion_launch one = launch(1, 1);
  CHECK(rings->push(1, &one, sizeof one) == PushResult::closed);
  CHECK(rings->close(0));
  CHECK(rings->quiescent());
}

TEST_CASE("records come out as they went in, also where they wrap") {
  SharedRegion region({.ring_count = 1, .ring_bytes = 4096});
  const auto rings = make_rings();
  rings->open(region.base(), region.header());
  // 48 does not divide 4096: every 85th record or so wraps.
  for (std::uint32_t i = 1; i <= 10'000; ++i) {
    pillion_launch one = launch(7, i);
    REQUIRE(rings->push(7, &one, sizeof one) == PushResult::ok);
    one.header.sequence = static_cast<std::uint16_t>(i);
    const auto out = region.drain(0);
    REQUIRE(out.size() == 1);
    REQUIRE(std::memcmp(out[0].data(), &one, sizeof one) == 0);
  }
  CHECK(rings->close(0));
}

TEST_CASE("each ring numbers its own records from 1, and leaves 0 out when the numbers go round") {
  SharedRegion region({.ring_count = 2, .ring_bytes = 4096});
  const auto rings = make_rings();
  for (int session = 0; session < 2; ++session) {
    rings->open(region.base(), region.header());
    std::uint32_t expected[2] = {1, 1};
    for (std::uint32_t i = 0; i < 2 * 0x1'0000 + 10; ++i) {
      const pillion_launch one = launch(i % 7 + 1, i);
      REQUIRE(rings->push(one.tid, &one, sizeof one) == PushResult::ok);
      for (std::uint32_t ring = 0; ring < 2; ++ring) {
        for (const auto& record : region.drain(ring)) {
          if (as_launch(record).header.sequence != expected[ring]) FAIL(i << ": ring " << ring);
          expected[ring] = expected[ring] == 0xffff ? 1 : expected[ring] + 1;
        }
      }
    }
    CHECK(expected[0] + expected[1] > 2);
    REQUIRE(rings->close(0));
    region.ring(0) = {};
    region.ring(1) = {};
  }
}

TEST_CASE("a full ring set says full, and takes records again once the reader has read") {
  SharedRegion region({.ring_count = 2, .ring_bytes = 4096});
  const auto rings = make_rings();
  rings->open(region.base(), region.header());
  std::uint32_t taken = 0;
  for (;; ++taken) {
    const pillion_launch one = launch(3, taken);
    const PushResult result = rings->push(3, &one, sizeof one);
    if (result == PushResult::full) break;
    REQUIRE(result == PushResult::ok);
  }
  CHECK(taken == 2 * (4096 / sizeof(pillion_launch)));
  CHECK(region.drain(0).size() + region.drain(1).size() == taken);
  const pillion_launch one = launch(3, 0);
  CHECK(rings->push(3, &one, sizeof one) == PushResult::ok);
  std::vector<std::uint8_t> large(8192);
  CHECK(rings->push(3, large.data(), 8192) == PushResult::full);
  CHECK(rings->close(0));
}

TEST_CASE("a reservation spans the wrap, publishes what is used, or nothing") {
  SharedRegion region({.kind = PILLION_REGION_STACKS, .ring_count = 1, .ring_bytes = 4096});
  const auto rings = make_rings();
  rings->open(region.base(), region.header());
  std::uint16_t published = 0;
  for (std::uint32_t i = 0; i < 100; ++i) {
    Reservation room;
    REQUIRE(rings->reserve(5, 1600, &room) == PushResult::ok);
    if (i % 3 == 1) {
      rings->abort(room);
      CHECK(region.drain(0).empty());
      continue;
    }
    std::vector<std::uint8_t> bytes(1600, static_cast<std::uint8_t>(i));
    const std::uint32_t used = i % 2 == 0 ? 1600 : 800;
    const pillion_record_header header{PILLION_RECORD_SNAPSHOT, 0, used};
    std::memcpy(bytes.data(), &header, sizeof header);
    std::uint64_t at = 0;
    std::uint32_t pieces = 0;
    for (RingSpan piece = room.span(0); piece.bytes > 0; piece = room.span(at), ++pieces) {
      REQUIRE(reinterpret_cast<std::uintptr_t>(piece.data) % 8 == 0);
      std::memcpy(piece.data, bytes.data() + at, piece.bytes);
      at += piece.bytes;
    }
    REQUIRE(at == 1600);
    REQUIRE(pieces <= 2);
    rings->commit(room, used);
    const auto out = region.drain(0);
    REQUIRE(out.size() == 1);
    const pillion_record_header numbered{PILLION_RECORD_SNAPSHOT, ++published, used};
    std::memcpy(bytes.data(), &numbered, sizeof numbered);
    CHECK(std::memcmp(out[0].data(), bytes.data(), used) == 0);
  }
  CHECK(rings->close(0));
}

TEST_CASE("a holder's ring is passed over, also by itself from a signal handler") {
  SharedRegion region({.ring_count = 1});
  const auto rings = make_rings();
  rings->open(region.base(), region.header());
  const std::uint32_t tid = this_tid();
  Reservation room;
  REQUIRE(rings->reserve(tid, 48, &room) == PushResult::ok);
  const pillion_launch one = launch(tid, 1);
  CHECK(rings->push(tid, &one, sizeof one) == PushResult::busy);
  CHECK(rings->push(tid + 1, &one, sizeof one) == PushResult::busy);
  CHECK_FALSE(rings->close(5));  // somebody is inside: the mapping must stay
  CHECK_FALSE(rings->quiescent());
  CHECK(rings->push(tid + 1, &one, sizeof one) == PushResult::closed);
  rings->abort(room);
  CHECK(rings->close(0));
}

TEST_CASE("an impossible tail resets the ring and is counted; nothing outside the ring is written") {
  SharedRegion region({.ring_count = 1, .ring_bytes = 4096});
  const auto rings = make_rings();
  rings->open(region.base(), region.header());
  const std::uint64_t lies[] = {8192, 12345, std::uint64_t{1} << 63, 0 - (std::uint64_t{1} << 20)};
  std::uint64_t lied = 0;
  for (const std::uint64_t lie : lies) {
    // Fill it up, so that the tail is looked at.
    std::atomic_ref<std::uint64_t>(region.ring(0).tail).store(region.ring(0).head + lie);
    bool seen = false;
    for (std::uint32_t i = 0; i < 200 && !seen; ++i) {
      const pillion_launch one = launch(2, i);
      static_cast<void>(rings->push(2, &one, sizeof one));
      seen = rings->resets() > lied;
    }
    REQUIRE(seen);
    ++lied;
    CHECK(region.ring(0).head % 8 == 0);
  }
  CHECK(rings->resets() == lied);
  CHECK(rings->close(0));
}

TEST_CASE("the lock of a dead thread is freed after two ticks, a live one's never") {
  SharedRegion region({.ring_count = 1});
  const auto rings = make_rings();
  rings->open(region.base(), region.header());
  std::uint32_t dead = 0;
  std::thread([&] {
    Reservation room;
    dead = this_tid();
    static_cast<void>(rings->reserve(dead, 48, &room));
  }).join();
  // join() may return a little before the kernel has forgotten the tid.
  while (!thread_is_gone(dead)) std::this_thread::yield();
  const pillion_launch one = launch(1, 1);
  CHECK(rings->push(1, &one, sizeof one) == PushResult::busy);
  rings->release_dead_holders();
  CHECK(rings->push(1, &one, sizeof one) == PushResult::busy);
  rings->release_dead_holders();
  CHECK(rings->push(1, &one, sizeof one) == PushResult::ok);
  CHECK(region.drain(0).size() == 1);  // what the dead one had not published never was

  Reservation room;
  REQUIRE(rings->reserve(this_tid(), 48, &room) == PushResult::ok);
  for (int i = 0; i < 5; ++i) rings->release_dead_holders();
  CHECK(rings->push(1, &one, sizeof one) == PushResult::busy);
  rings->abort(room);
  CHECK(rings->close(0));
}

TEST_CASE("producers against a reader: taken + dropped = tried, in order per producer within a ring") {
  constexpr std::uint32_t kThreads = 8;
  constexpr std::uint32_t kEach = 100'000;
  SharedRegion region({.ring_count = 4, .ring_bytes = 16 * 1024});
  const auto rings = make_rings();
  rings->open(region.base(), region.header());
  std::atomic<std::uint64_t> taken{0};
  std::atomic<std::uint64_t> dropped{0};
  std::atomic<std::uint32_t> running{kThreads};
  std::vector<std::thread> producers;
  for (std::uint32_t t = 0; t < kThreads; ++t) {
    producers.emplace_back([&, t] {
      const std::uint32_t tid = 1000 + t;
      for (std::uint32_t i = 1; i <= kEach; ++i) {
        const pillion_launch one = launch(tid, i);
        const bool ok = rings->push(tid, &one, sizeof one) == PushResult::ok;
        (ok ? taken : dropped).fetch_add(1, std::memory_order_relaxed);
      }
      running.fetch_sub(1);
    });
  }
  std::uint64_t read = 0;
  std::vector<std::uint32_t> last(kThreads * 4, 0);
  const auto drain_all = [&] {
    for (std::uint32_t r = 0; r < 4; ++r) {
      for (const auto& record : region.drain(r)) {
        const pillion_launch one = as_launch(record);
        REQUIRE(one.context_key == (std::uint64_t{one.tid} << 32 | one.correlation));
        std::uint32_t& before = last[(one.tid - 1000) * 4 + r];
        REQUIRE(one.correlation > before);
        before = one.correlation;
        ++read;
      }
    }
  };
  while (running.load() > 0) drain_all();
  for (std::thread& producer : producers) producer.join();
  drain_all();
  CHECK(read == taken.load());
  CHECK(taken.load() + dropped.load() == std::uint64_t{kThreads} * kEach);
  CHECK(taken.load() > 0);
  CHECK(rings->close(0));
}

TEST_CASE("closed under fire: after close() nobody touches the region, which may go") {
  const auto rings = make_rings();
  std::atomic<bool> stop{false};
  std::atomic<std::uint64_t> taken{0};
  std::vector<std::thread> producers;
  for (std::uint32_t t = 0; t < 4; ++t) {
    producers.emplace_back([&] {
      const std::uint32_t tid = this_tid();  // close() frees the ring of a holder that does not exist
      for (std::uint32_t i = 0; !stop.load(); ++i) {
        const pillion_launch one = launch(tid, i);
        if (rings->push(tid, &one, sizeof one) == PushResult::ok) taken.fetch_add(1);
      }
    });
  }
  for (std::uint64_t session = 1; session <= 50; ++session) {
    const std::uint64_t before = taken.load();
    auto region = std::make_unique<SharedRegion>(RegionPlan{.ring_count = 3, .ring_bytes = 1 << 16});
    rings->open(region->base(), region->header());
    std::uint64_t read = 0;
    while (taken.load() < before + 50) {
      for (std::uint32_t r = 0; r < 3; ++r) read += region->drain(r).size();
    }
    REQUIRE(rings->close(2000));
    for (std::uint32_t r = 0; r < 3; ++r) read += region->drain(r).size();
    REQUIRE(read >= 50);
    region.reset();  // unmapped: a producer that still wrote would die here
  }
  stop.store(true);
  for (std::thread& producer : producers) producer.join();
}

TEST_CASE("a producer killed anywhere leaves whole records only, and the reader never waits") {
  for (int round = 0; round < 10; ++round) {
    SharedRegion region({.ring_count = 2, .ring_bytes = 8192});
    const pid_t child = ::fork();
    REQUIRE(child >= 0);
    if (child == 0) {
      RingSet* rings = new RingSet{};
      rings->open(region.base(), region.header());
      for (std::uint32_t i = 1;; ++i) {
        const pillion_launch one = launch(1, i);
        static_cast<void>(rings->push(1, &one, sizeof one));
      }
    }
    std::uint64_t read = 0;
    while (read < 200 + static_cast<std::uint64_t>(round) * 37) {
      for (std::uint32_t r = 0; r < 2; ++r) {
        for (const auto& record : region.drain(r)) {
          const pillion_launch one = as_launch(record);
          REQUIRE(one.context_key == (std::uint64_t{1} << 32 | one.correlation));
          ++read;
        }
      }
    }
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
    for (std::uint32_t r = 0; r < 2; ++r) static_cast<void>(region.drain(r));  // throws on a broken record
  }
}

TEST_CASE("memory that a child sees wiped is a closed set") {
  SharedRegion region({.ring_count = 2});
  void* memory = ::mmap(nullptr, sizeof(RingSet), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  REQUIRE(memory != MAP_FAILED);
  if (::madvise(memory, sizeof(RingSet), 18 /* MADV_WIPEONFORK */) != 0) SKIP("kernel older than 4.14");
  auto* rings = static_cast<RingSet*>(memory);
  rings->open(region.base(), region.header());
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    const pillion_launch one = launch(1, 1);
    ::_exit(rings->push(1, &one, sizeof one) == PushResult::closed ? 0 : 1);
  }
  int status = -1;
  ::waitpid(child, &status, 0);
  CHECK(status == 0);
  CHECK(region.drain(0).empty());
  CHECK(rings->close(0));
  ::munmap(memory, sizeof(RingSet));
}

TEST_CASE("counters of many threads add up") {
  std::vector<pillion_counters> shards(kCounterShards);
  std::vector<std::thread> threads;
  for (std::uint32_t t = 0; t < 8; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 10'000; ++i) count(shards.data(), t * 3, &pillion_counters::launches);
    });
  }
  for (std::thread& thread : threads) thread.join();
  std::uint64_t sum = 0;
  for (const pillion_counters& shard : shards) sum += shard.launches;
  CHECK(sum == 80'000);
}
