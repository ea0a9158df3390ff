// SPDX-License-Identifier: Apache-2.0
#include "base/bounded_queue.h"

#include <memory>
#include <thread>
#include <vector>

#include <catch2/catch_test_macros.hpp>

using pillion::BoundedQueue;

TEST_CASE("a full queue refuses, counts, and leaves the value with the producer") {
  BoundedQueue<std::unique_ptr<int>> queue(2);
  REQUIRE(queue.try_push(std::make_unique<int>(1)));
  REQUIRE(queue.try_push(std::make_unique<int>(2)));
  auto third = std::make_unique<int>(3);
  CHECK_FALSE(queue.try_push(std::move(third)));
  REQUIRE(third != nullptr);
  CHECK(*third == 3);
  CHECK(queue.refused() == 1);
  CHECK(**queue.pop() == 1);
  CHECK(queue.try_push(std::move(third)));
}

TEST_CASE("weight bounds a queue as well as the number of items") {
  BoundedQueue<int> queue(100, 10);
  REQUIRE(queue.try_push(1, 6));
  CHECK_FALSE(queue.try_push(2, 5));
  REQUIRE(queue.try_push(3, 4));
  CHECK(queue.weight() == 10);
  CHECK_FALSE(queue.try_push(4, 11));  // heavier than the whole queue
  CHECK(queue.pop() == 1);
  CHECK(queue.weight() == 4);
  CHECK(queue.refused() == 2);
}

TEST_CASE("a closed queue gives what it holds and then ends") {
  BoundedQueue<int> queue(4);
  REQUIRE(queue.try_push(7));
  queue.close();
  CHECK_FALSE(queue.try_push(8));
  CHECK(queue.pop() == 7);
  CHECK(queue.pop() == std::nullopt);
}

TEST_CASE("abandon drops what is queued") {
  BoundedQueue<int> queue(4);
  REQUIRE(queue.try_push(7));
  queue.abandon();
  CHECK(queue.pop() == std::nullopt);
  CHECK(queue.weight() == 0);
}

TEST_CASE("four producers and two consumers: each value arrives once or was refused") {
  constexpr int kEach = 20'000;
  BoundedQueue<int> queue(64);
  std::vector<std::uint64_t> sums(2, 0);
  std::vector<std::uint64_t> counts(2, 0);
  std::vector<std::thread> consumers;
  for (std::size_t c = 0; c < 2; ++c) {
    consumers.emplace_back([&, c] {
      while (const auto value = queue.pop()) {
        sums[c] += static_cast<std::uint64_t>(*value);
        ++counts[c];
      }
    });
  }
  std::vector<std::uint64_t> pushed(4, 0);
  std::vector<std::thread> producers;
  for (std::size_t p = 0; p < 4; ++p) {
    producers.emplace_back([&, p] {
      for (int i = 1; i <= kEach; ++i) {
        if (queue.try_push(int{i})) pushed[p] += static_cast<std::uint64_t>(i);
      }
    });
  }
  for (auto& thread : producers) thread.join();
  queue.close();
  for (auto& thread : consumers) thread.join();
  CHECK(sums[0] + sums[1] == pushed[0] + pushed[1] + pushed[2] + pushed[3]);
  CHECK(counts[0] + counts[1] + queue.refused() == 4 * kEach);
}
