// SPDX-License-Identifier: Apache-2.0
#include "base/event_loop.h"

#include <fcntl.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <memory>
#include <thread>
#include <vector>

#include <catch2/catch_test_macros.hpp>

#include "base/clock.h"

using namespace std::chrono_literals;
using pillion::EventLoop;
using pillion::UniqueFd;

namespace {

struct Pipe {
  Pipe() {
    std::array<int, 2> ends{};
    REQUIRE(::pipe2(ends.data(), O_CLOEXEC | O_NONBLOCK) == 0);
    read.reset(ends[0]);
    write.reset(ends[1]);
  }
  void put() const { REQUIRE(::write(write.get(), "x", 1) == 1); }
  UniqueFd read;
  UniqueFd write;
};

std::unique_ptr<EventLoop> make_loop() {
  auto loop = EventLoop::create();
  REQUIRE(loop.has_value());
  return std::move(*loop);
}

}  // namespace

TEST_CASE("a readable fd calls back, an unwatched one does not") {
  const auto loop = make_loop();
  const Pipe pipe;
  int calls = 0;
  REQUIRE(loop->watch(pipe.read.get(), EPOLLIN, [&](std::uint32_t) { ++calls; }).has_value());
  CHECK_FALSE(loop->run_once(0ms));
  pipe.put();
  CHECK(loop->run_once(1s));
  CHECK(calls == 1);
  loop->unwatch(pipe.read.get());
  CHECK_FALSE(loop->run_once(0ms));
  CHECK(calls == 1);
}

TEST_CASE("a callback that unwatches another ready fd keeps it from being called") {
  const auto loop = make_loop();
  const Pipe one;
  const Pipe two;
  int calls = 0;
  const auto only_me = [&](int other) {
    return [&loop, &calls, other](std::uint32_t) {
      ++calls;
      loop->unwatch(other);
    };
  };
  REQUIRE(loop->watch(one.read.get(), EPOLLIN, only_me(two.read.get())).has_value());
  REQUIRE(loop->watch(two.read.get(), EPOLLIN, only_me(one.read.get())).has_value());
  one.put();
  two.put();
  (void)loop->run_once(1s);
  CHECK(calls == 1);
}

TEST_CASE("a callback may unwatch itself and what it captured lives until it returns") {
  const auto loop = make_loop();
  const Pipe pipe;
  auto captured = std::make_shared<int>(5);
  int seen = 0;
  REQUIRE(loop->watch(pipe.read.get(), EPOLLIN,
                      [&loop, &pipe, &seen, captured](std::uint32_t) {
                        loop->unwatch(pipe.read.get());
                        seen = *captured;
                      })
              .has_value());
  captured.reset();
  pipe.put();
  (void)loop->run_once(1s);
  CHECK(seen == 5);
}

TEST_CASE("timers fire in order of their time, never early, and not after cancel") {
  const auto loop = make_loop();
  std::vector<int> order;
  const std::uint64_t start = pillion::monotonic_ns();
  std::uint64_t fired = 0;
  loop->after(20ms, [&] {
    order.push_back(2);
    fired = pillion::monotonic_ns();
  });
  loop->after(5ms, [&] { order.push_back(1); });
  const auto cancelled = loop->after(1ms, [&] { order.push_back(9); });
  loop->cancel(cancelled);
  while (order.size() < 2) (void)loop->run_once(1s);
  CHECK(order == std::vector<int>{1, 2});
  CHECK(fired - start >= 20'000'000);
}

TEST_CASE("a periodic timer goes on until it cancels itself") {
  const auto loop = make_loop();
  int beats = 0;
  EventLoop::TimerId timer = 0;
  timer = loop->every(1ms, [&] {
    if (++beats == 3) loop->cancel(timer);
  });
  while (beats < 3) (void)loop->run_once(1s);
  bool later = false;
  loop->after(10ms, [&] { later = true; });
  while (!later) (void)loop->run_once(1s);
  CHECK(beats == 3);
}

TEST_CASE("post runs work of other threads on the loop's thread, stop ends it") {
  const auto loop = make_loop();
  std::thread runner([&] { loop->run(); });
  std::vector<std::thread> posters;
  int sum = 0;  // touched on the loop's thread only
  bool always_in_loop = true;
  for (int p = 0; p < 4; ++p) {
    posters.emplace_back([&] {
      for (int i = 0; i < 1'000; ++i) {
        while (!loop->post([&] {
          ++sum;
          always_in_loop = always_in_loop && loop->in_loop_thread();
        })) {
        }
      }
    });
  }
  for (auto& thread : posters) thread.join();
  REQUIRE(loop->post([&] { loop->stop(); }));
  runner.join();
  CHECK(sum == 4'000);
  CHECK(always_in_loop);
  CHECK_FALSE(loop->in_loop_thread());
  CHECK_FALSE(loop->post([] {}));
}

TEST_CASE("post refuses past its limit instead of growing") {
  const auto loop = make_loop();
  std::size_t taken = 0;
  while (taken <= EventLoop::kPostedMax && loop->post([] {})) ++taken;
  CHECK(taken == EventLoop::kPostedMax);
  CHECK(loop->run_once(0ms));
  CHECK(loop->post([] {}));
}

TEST_CASE("stop before run returns at once") {
  const auto loop = make_loop();
  loop->stop();
  loop->run();
  SUCCEED();
}
