// SPDX-License-Identifier: Apache-2.0
//
// A session's end against what is still under way in it, and our own calls against our own callbacks.
#include <atomic>
#include <catch2/catch_test_macros.hpp>
#include <thread>

#include "test_session.h"
#include "thread_state.h"

using namespace pillion;
using namespace pillion::shim;
using namespace pillion::shim::test;

namespace {

std::atomic<bool> g_inside{false};
std::atomic<bool> g_go_on{false};

// A completion that takes its time over its first record, and finds no other.
cupti::Result slow_walk(std::uint8_t*, std::size_t, std::uint8_t**) {
  g_inside = true;
  while (!g_go_on) std::this_thread::yield();
  return cupti::kErrorMaxLimitReached;
}

}  // namespace

TEST_CASE("a session's end waits for a completion that is under way") {
  TestSession test;
  CuptiApi slow = *test.session().api;
  slow.next_record = slow_walk;
  test.session().api = &slow;
  std::uint8_t* buffer = nullptr;
  std::size_t size = 0;
  std::size_t max_records = 0;
  buffer_requested(&buffer, &size, &max_records);
  REQUIRE(buffer != nullptr);
  std::thread worker([&] { buffer_completed(nullptr, 0, buffer, size, 216); });
  while (!g_inside) std::this_thread::yield();
  g_session = nullptr;
  CHECK_FALSE(activity_quiesce(50));
  g_go_on = true;
  CHECK(activity_quiesce(5000));
  worker.join();
}

TEST_CASE("a launch from within our own handler is counted and not recorded") {
  TestSession test;
  launch({307, 1, 0xabcd, 0});
  t_thread.inside = 1;
  launch({307, 2, 0xabcd, 0});
  launch({307, 3, 0xabcd, 1});  // failed, too
  t_thread.inside = 0;
  launch({307, 4, 0xabcd, 0});
  auto records = test.drain();
  REQUIRE(records[PILLION_RECORD_LAUNCH].size() == 2);
  CHECK(as<pillion_launch>(records[PILLION_RECORD_LAUNCH][1]).correlation == 4);
  CHECK(records[PILLION_RECORD_LAUNCH_FAILED].empty());
  CHECK(test.counter(&pillion_counters::launches) == 4);
  CHECK(test.counter(&pillion_counters::launches_dropped_busy) == 2);
}
