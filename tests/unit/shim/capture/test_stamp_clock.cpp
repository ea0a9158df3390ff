// SPDX-License-Identifier: Apache-2.0
#include "stamp_clock.h"

#include <atomic>
#include <catch2/catch_test_macros.hpp>
#include <cstdlib>
#include <thread>

using namespace pillion::shim;

namespace {

// A processor whose counter and clock are driven by hand. The clock costs 20 ns to read, so that a look has a
// bracket.
struct FakeClock {
  static inline double ticks_per_ns = 2.5;
  static inline double clock_pace = 1;  // of CLOCK_MONOTONIC, as NTP changes it
  static inline double ticks_now = 0;
  static inline double ns_now = 0;
  static inline std::uint64_t reads = 0;
  static inline double read_ns = 20;
  static void pass(double ns) {
    ticks_now += ns * ticks_per_ns;
    ns_now += ns * clock_pace;
  }
  static std::uint64_t ticks() { return static_cast<std::uint64_t>(ticks_now); }
  static std::uint64_t ns() {
    ++reads;
    pass(read_ns);
    return static_cast<std::uint64_t>(ns_now);
  }
  static void reset() {
    ticks_now = 1e12;
    ns_now = 5e12;
    ticks_per_ns = 2.5;
    clock_pace = 1;
    read_ns = 20;
  }
};

using Clock = BasicStampClock<FakeClock>;

constexpr double kTick = 100e6;

double error_of(const Clock& clock) {
  const double told = static_cast<double>(clock.now());
  return std::abs(told - FakeClock::ns_now);
}

void begin(Clock& clock) {
  FakeClock::reset();
  clock.begin(true);
  clock.tick();
  FakeClock::pass(kTick);
  clock.tick();
}

}  // namespace

TEST_CASE("it counts from the second look on, and without the kernel's clock") {
  Clock clock{};
  FakeClock::reset();
  clock.begin(true);
  clock.tick();
  CHECK_FALSE(clock.counts());
  FakeClock::pass(kTick);
  clock.tick();
  REQUIRE(clock.counts());
  const std::uint64_t reads = FakeClock::reads;
  for (int i = 0; i < 1000; ++i) {
    FakeClock::pass(90'000);
    CHECK(error_of(clock) < 100);
  }
  CHECK(FakeClock::reads == reads);
}

TEST_CASE("a counter that is not steady is never used") {
  Clock clock{};
  FakeClock::reset();
  clock.begin(false);
  for (int i = 0; i < 5; ++i) {
    clock.tick();
    FakeClock::pass(kTick);
  }
  CHECK_FALSE(clock.counts());
}

TEST_CASE("it follows a clock that is slewed, without a step and never backwards") {
  Clock clock{};
  begin(clock);
  std::uint64_t last = clock.now();
  for (int tick = 0; tick < 200; ++tick) {
    FakeClock::clock_pace = 1 + (tick / 20 % 2 == 0 ? 15e-6 : -15e-6);
    for (int i = 0; i < 100; ++i) {
      FakeClock::pass(kTick / 100);
      const std::uint64_t now = clock.now();
      CHECK(now >= last);
      CHECK(error_of(clock) < 2 * Clock::kErrorMaxNs);
      last = now;
    }
    clock.tick();
    CHECK(clock.now() >= last);
    CHECK(clock.counts());
  }
}

TEST_CASE("where it does not agree with the kernel's clock it is not used until it does") {
  Clock clock{};
  begin(clock);
  FakeClock::ns_now += 50'000;  // a step, as after a migration of the machine
  FakeClock::pass(kTick);
  clock.tick();
  CHECK_FALSE(clock.counts());
  CHECK(error_of(clock) < 1);
  FakeClock::pass(kTick);
  clock.tick();
  CHECK(clock.counts());
  CHECK(error_of(clock) < 100);
}

TEST_CASE("without looks it is not trusted for longer than a second") {
  Clock clock{};
  begin(clock);
  const std::uint64_t reads = FakeClock::reads;
  FakeClock::pass(0.9e9);
  (void)clock.now();
  CHECK(FakeClock::reads == reads);
  FakeClock::pass(0.2e9);
  (void)clock.now();
  CHECK(FakeClock::reads == reads + 1);
}

TEST_CASE("a counter that goes back or stands still is not used") {
  Clock clock{};
  begin(clock);
  SECTION("back") {
    FakeClock::ticks_now -= 1e9;
    const std::uint64_t reads = FakeClock::reads;
    (void)clock.now();
    CHECK(FakeClock::reads == reads + 1);
  }
  SECTION("still") {
    FakeClock::ticks_per_ns = 0;
    FakeClock::pass(kTick);
    clock.tick();
    CHECK_FALSE(clock.counts());
  }
}

TEST_CASE("a look that was interrupted says nothing") {
  Clock clock{};
  begin(clock);
  const std::uint64_t before = clock.now();
  FakeClock::read_ns = 50'000;
  clock.tick();
  FakeClock::read_ns = 20;
  CHECK(clock.counts());
  CHECK(clock.now() >= before);
}

TEST_CASE("the processor's own agrees with CLOCK_MONOTONIC, on every thread at once") {
  BasicStampClock<ProcessorClock> clock{};
  clock.begin(processor_clock_is_steady());
  clock.tick();
  sleep_ns(60'000'000);
  clock.tick();
  if (!clock.counts()) SKIP("the kernel does not take its time from the processor's counter");
  std::atomic<bool> stop{false};
  std::atomic<std::uint64_t> wrong{0};
  const auto read = [&] {
    while (!stop) {
      const std::uint64_t before = monotonic_ns();
      const std::uint64_t now = clock.now();
      const std::uint64_t after = monotonic_ns();
      // Both bounds with what it may be off.
      if (now + 2 * Clock::kErrorMaxNs < before || now > after + 2 * Clock::kErrorMaxNs) ++wrong;
    }
  };
  std::thread one(read), two(read);
  for (int i = 0; i < 15; ++i) {
    sleep_ns(30'000'000);
    clock.tick();
  }
  stop = true;
  one.join();
  two.join();
  CHECK(wrong == 0);
}
