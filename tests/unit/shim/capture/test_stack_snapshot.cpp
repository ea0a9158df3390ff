// SPDX-License-Identifier: Apache-2.0
#include <pthread.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <ucontext.h>
#include <unistd.h>

#include <catch2/catch_test_macros.hpp>
#include <cstring>
#include <functional>
#include <thread>
#include <vector>

#include "../control/shared_region.h"
#include "arch.h"
#include "proc_maps.h"
#include "stack_bounds.h"
#include "stack_snapshot.h"
#include "system_calls.h"

using namespace pillion::shim;
using pillion::shim::test::RegionPlan;
using pillion::shim::test::SharedRegion;

namespace {

struct Snapshot {
  pillion_snapshot header;
  std::vector<std::uint8_t> stack;
};

class StackRings {
 public:
  explicit StackRings(std::uint32_t ring_bytes = 2 << 20, std::uint32_t rings = 1)
      : region_({PILLION_REGION_STACKS, 1, rings, ring_bytes}) {
    set_.open(region_.base(), region_.header());
  }
  ~StackRings() { (void)set_.close(100); }

  RingSet& set() { return set_; }

  std::vector<Snapshot> drain() {
    std::vector<Snapshot> all;
    for (const auto& record : region_.drain(0)) {
      Snapshot one;
      REQUIRE(record.size() >= sizeof(one.header));
      std::memcpy(&one.header, record.data(), sizeof(one.header));
      REQUIRE(one.header.header.size == sizeof(one.header) + one.header.stack_bytes);
      one.stack.assign(record.begin() + sizeof(one.header), record.end());
      all.push_back(std::move(one));
    }
    return all;
  }

 private:
  SharedRegion region_;
  RingSet set_{};
};

const std::atomic<std::uint32_t> kSession{1};

SnapshotSubject subject(std::uint32_t cap = 192 * 1024) { return {42, 1234, 0xabcd, 1, cap, &kSession}; }

// A frame with contents that can be recognised in the copy.
struct Pattern {
  volatile std::uint64_t words[64];
  explicit Pattern(std::uint64_t seed) {
    for (std::uint64_t i = 0; i < 64; ++i) words[i] = seed + i;
  }
};

// Runs body below `depth` bytes of stack.
void with_depth(std::size_t depth, const std::function<void()>& body) {
  auto* room = static_cast<volatile char*>(__builtin_alloca(depth + 16));
  room[0] = 1;
  room[depth] = 1;
  body();
}

struct Fiber {
  std::function<void()> body;
  ucontext_t back{};
  ucontext_t self{};
};
Fiber* g_fiber = nullptr;

void run_on(void* stack, std::size_t bytes, std::function<void()> body) {
  Fiber fiber;
  fiber.body = std::move(body);
  g_fiber = &fiber;
  getcontext(&fiber.self);
  fiber.self.uc_stack.ss_sp = stack;
  fiber.self.uc_stack.ss_size = bytes;
  fiber.self.uc_link = &fiber.back;
  makecontext(
      &fiber.self, +[] { g_fiber->body(); }, 0);
  swapcontext(&fiber.back, &fiber.self);
}

}  // namespace

TEST_CASE("the main thread's stack is bounded by the kernel's mapping") {
  REQUIRE(this_tid() == this_pid());
  StackBounds bounds{};
  const auto sp = reinterpret_cast<std::uint64_t>(__builtin_frame_address(0));
  REQUIRE(find_stack_bounds(sp, true, &bounds));
  CHECK(bounds.low <= sp);
  ProcMapsReader maps;
  ProcMapping mapping;
  bool found = false;
  while (maps.next(&mapping)) {
    if (!mapping.is_main_stack()) continue;
    found = true;
    CHECK(bounds.high == mapping.end);
  }
  CHECK(found);
}

TEST_CASE("a thread's stack is bounded by what pthread says") {
  std::thread([] {
    pthread_attr_t attributes;
    REQUIRE(pthread_getattr_np(pthread_self(), &attributes) == 0);
    void* low = nullptr;
    std::size_t size = 0;
    pthread_attr_getstack(&attributes, &low, &size);
    pthread_attr_destroy(&attributes);
    const auto high = reinterpret_cast<std::uint64_t>(low) + size;
    StackBounds bounds{};
    const auto sp = reinterpret_cast<std::uint64_t>(__builtin_frame_address(0));
    REQUIRE(find_stack_bounds(sp, false, &bounds));
    // pthread counts the thread's control block and TLS to the stack; frames end below them.
    CHECK(bounds.high <= high);
    CHECK(bounds.high > high - 64 * 1024);
    CHECK(bounds.low <= sp);
  }).join();
}

TEST_CASE("both ways to find a mapping agree") {
  const auto address = reinterpret_cast<std::uint64_t>(&kSession);
  ProcMapping quick{};
  REQUIRE(find_mapping(address, &quick));
  ProcMapsReader maps;
  ProcMapping slow{};
  while (maps.next(&slow) && slow.end <= address) {
  }
  CHECK(quick.start == slow.start);
  CHECK(quick.end == slow.end);
  CHECK(quick.readable == slow.readable);
  CHECK_FALSE(find_mapping(8, &quick));
}

TEST_CASE("a memory file named like a device looks like a context") {
  ProcMapping mapping{};
  const auto named = [&](const char* path) {
    std::strcpy(mapping.path, path);
    return mapping.names_nvidia_uvm();
  };
  CHECK(named("/dev/nvidia-uvm"));
  CHECK(named("/memfd:/dev/nvidia-uvm (deleted)"));
  CHECK_FALSE(named("/dev/nvidia-uvm-tools"));
  CHECK_FALSE(named("/dev/nvidiactl"));
  CHECK_FALSE(named("/dev/nvidia0"));
  CHECK_FALSE(named("/usr/lib/libnvidia0.so"));
}

TEST_CASE("a snapshot is the stack, byte for byte") {
  StackRings rings;
  const Pattern pattern(0x1111'2222'0000);
  ThreadState thread{};
  thread.tid = this_tid();
  const SnapshotResult result = take_snapshot(rings.set(), thread, subject());
  REQUIRE(result.push == PushResult::ok);
  CHECK(result.flags == 0);
  const auto snapshots = rings.drain();
  REQUIRE(snapshots.size() == 1);
  const pillion_snapshot& header = snapshots[0].header;
  CHECK(header.correlation == 42);
  CHECK(header.context_key == 0xabcd);
  CHECK(header.time_ns == 1234);
  CHECK(header.tid == this_tid());
  CHECK(header.registers[PILLION_REG_RSP] >= header.stack_start);
  CHECK(header.registers[PILLION_REG_RSP] < header.stack_start + 16);
  CHECK(header.stack_start + header.stack_bytes == thread.stack_high);
  // This frame has not changed meanwhile: the copy of the pattern and of all above it is what is there now.
  const auto at = reinterpret_cast<std::uint64_t>(&pattern) - header.stack_start;
  REQUIRE(at + sizeof(pattern) <= snapshots[0].stack.size());
  CHECK(std::memcmp(snapshots[0].stack.data() + at, const_cast<std::uint64_t*>(pattern.words),
                    sizeof(pattern)) == 0);
  const char* environment = environ[0];
  const auto above = reinterpret_cast<std::uint64_t>(environment) - header.stack_start;
  if (above < snapshots[0].stack.size()) {
    CHECK(std::strcmp(reinterpret_cast<const char*>(snapshots[0].stack.data() + above), environment) == 0);
  }
}

TEST_CASE("the copy crosses the end of a ring unharmed") {
  StackRings rings(64 * 1024);
  std::thread([&] {
    ThreadState thread{};
    thread.tid = this_tid();
    int wrapped = 0;
    for (int i = 0; i < 40; ++i) {
      const Pattern pattern(0x77'0000'0000 + static_cast<std::uint64_t>(i) * 1000);
      with_depth(static_cast<std::size_t>(1000 + 517 * i), [&] {
        const SnapshotResult result = take_snapshot(rings.set(), thread, subject(48 * 1024));
        REQUIRE(result.push == PushResult::ok);
        const auto snapshots = rings.drain();
        REQUIRE(snapshots.size() == 1);
        const auto at = reinterpret_cast<std::uint64_t>(&pattern) - snapshots[0].header.stack_start;
        REQUIRE(at + sizeof(pattern) <= snapshots[0].stack.size());
        REQUIRE(std::memcmp(snapshots[0].stack.data() + at, const_cast<std::uint64_t*>(pattern.words),
                            sizeof(pattern)) == 0);
        ++wrapped;
      });
    }
    CHECK(wrapped == 40);
  }).join();
}

TEST_CASE("a stack deeper than the cap is cut at its top and marked") {
  StackRings rings;
  std::thread([&] {
    ThreadState thread{};
    thread.tid = this_tid();
    with_depth(100'000, [&] {
      const SnapshotResult result = take_snapshot(rings.set(), thread, subject(64 * 1024));
      REQUIRE(result.push == PushResult::ok);
      CHECK(result.flags == PILLION_SNAPSHOT_TRUNCATED);
      const auto snapshots = rings.drain();
      REQUIRE(snapshots.size() == 1);
      CHECK(snapshots[0].header.stack_bytes == 64 * 1024);
      CHECK(snapshots[0].header.flags == PILLION_SNAPSHOT_TRUNCATED);
    });
  }).join();
}

TEST_CASE("the main stack may grow after its bounds were taken") {
  StackRings rings;
  ThreadState thread{};
  thread.tid = this_tid();
  REQUIRE(take_snapshot(rings.set(), thread, subject()).flags == 0);
  const std::uint64_t low = thread.stack_low;
  const std::uint64_t frame = reinterpret_cast<std::uint64_t>(__builtin_frame_address(0));
  with_depth(frame - low + 256 * 1024, [&] {
    const SnapshotResult result = take_snapshot(rings.set(), thread, subject());
    CHECK((result.flags & PILLION_SNAPSHOT_FOREIGN) == 0);
    CHECK(thread.stack_low < low);
  });
}

TEST_CASE("a fiber's stack is copied fault-safe, up to what is mapped") {
  StackRings rings;
  constexpr std::size_t kPage = 4096;
  constexpr std::size_t kStack = 16 * kPage;
  // The stack, then a page that cannot be read: a load past the stack's top would kill this test.
  auto* memory = static_cast<std::uint8_t*>(
      mmap(nullptr, kStack + kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  REQUIRE(memory != MAP_FAILED);
  REQUIRE(mprotect(memory + kStack, kPage, PROT_NONE) == 0);
  ThreadState thread{};
  thread.tid = this_tid();
  SnapshotResult result{};
  run_on(memory, kStack, [&] { result = take_snapshot(rings.set(), thread, subject()); });
  REQUIRE(result.push == PushResult::ok);
  CHECK(result.flags == PILLION_SNAPSHOT_FOREIGN);
  const auto snapshots = rings.drain();
  REQUIRE(snapshots.size() == 1);
  const pillion_snapshot& header = snapshots[0].header;
  CHECK(header.flags == PILLION_SNAPSHOT_FOREIGN);
  CHECK(header.stack_start > reinterpret_cast<std::uint64_t>(memory));
  CHECK(header.stack_start + header.stack_bytes == reinterpret_cast<std::uint64_t>(memory + kStack));
  munmap(memory, kStack + kPage);
}

TEST_CASE("a fiber never makes a thread's bounds wrong") {
  StackRings rings;
  std::vector<std::uint8_t> memory(256 * 1024);
  std::thread([&] {
    ThreadState thread{};
    thread.tid = this_tid();
    run_on(memory.data(), memory.size(), [&] {
      const SnapshotResult result = take_snapshot(rings.set(), thread, subject());
      CHECK((result.flags & PILLION_SNAPSHOT_FOREIGN) != 0);
    });
    CHECK(thread.stack_high == 0);
    CHECK((take_snapshot(rings.set(), thread, subject()).flags & PILLION_SNAPSHOT_FOREIGN) == 0);
    CHECK(thread.stack_high != 0);
  }).join();
}

TEST_CASE("an address that cannot be read gives no bytes and no fault") {
  StackRings rings;
  Reservation room;
  REQUIRE(rings.set().reserve(this_tid(), 64 * 1024, &room) == PushResult::ok);
  CHECK(copy_fault_safe(this_tid(), room, 0, 4096, 32 * 1024) == 0);
  const std::uint64_t words[4] = {1, 2, 3, 4};
  CHECK(copy_fault_safe(this_tid(), room, 0, reinterpret_cast<std::uint64_t>(words), sizeof(words)) ==
        sizeof(words));
  CHECK(std::memcmp(room.span(0).data, words, sizeof(words)) == 0);
  rings.set().abort(room);
}

TEST_CASE("nothing is published for a session that has ended") {
  StackRings rings;
  ThreadState thread{};
  thread.tid = this_tid();
  const std::atomic<std::uint32_t> next{2};
  SnapshotSubject late = subject();
  late.current_session = &next;
  CHECK(take_snapshot(rings.set(), thread, late).push == PushResult::closed);
  CHECK(rings.drain().empty());
  CHECK(take_snapshot(rings.set(), thread, subject()).push == PushResult::ok);  // the ring is free again
}

TEST_CASE("copies past the caches keep every byte at any length and alignment") {
  std::vector<std::uint8_t> from(4096);
  for (std::size_t i = 0; i < from.size(); ++i) from[i] = static_cast<std::uint8_t>(i * 31 + 7);
  alignas(64) static std::uint8_t to[4096 + 64];
  for (std::size_t to_offset = 0; to_offset < 64; to_offset += 8) {
    for (std::size_t from_offset = 0; from_offset < 32; from_offset += 8) {
      for (std::size_t bytes : {0u, 8u, 16u, 24u, 56u, 64u, 72u, 128u, 1000u, 2048u}) {
        std::memset(to, 0x55, sizeof(to));
        arch::copy_past_caches(to + to_offset, from.data() + from_offset, bytes);
        arch::store_fence();
        REQUIRE(std::memcmp(to + to_offset, from.data() + from_offset, bytes) == 0);
        REQUIRE(to[to_offset + bytes] == 0x55);
        if (to_offset > 0) REQUIRE(to[to_offset - 1] == 0x55);
      }
    }
  }
}
