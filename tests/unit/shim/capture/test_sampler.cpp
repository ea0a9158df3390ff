// SPDX-License-Identifier: Apache-2.0
#include <catch2/catch_test_macros.hpp>
#include <cstdint>
#include <memory>
#include <set>
#include <thread>
#include <vector>

#include "sampler.h"

using namespace pillion::shim;

namespace {

constexpr std::uint64_t kTickNs = 100'000'000;

struct Simulation {
  std::unique_ptr<Sampler> sampler = std::make_unique<Sampler>();
  ThreadState thread{};
  std::uint64_t snapshots = 0;
  std::uint64_t firsts = 0;
  std::uint64_t refused = 0;
  std::uint64_t cost_ns = 5'000;
  std::uint64_t bytes = 80 * 1024;

  explicit Simulation(const SamplerBudget& budget) {
    thread.tid = 1000;
    thread.random = 0x2545f491;
    sampler->begin(budget);
  }

  // True when this launch took a snapshot.
  bool launch(std::uint64_t key) {
    const SampleDecision decision = sampler->decide(thread, thread.until_sample, key);
    if (decision.reason == SampleReason::refused_first) ++refused;
    if (decision.reason != SampleReason::first && decision.reason != SampleReason::random) return false;
    sampler->sampled(decision, cost_ns, bytes);
    ++snapshots;
    if (decision.reason == SampleReason::first) ++firsts;
    return true;
  }
};

std::uint64_t key_of(std::uint64_t n) { return context_key(7, 0x7fff0000 + n * 16, 0x1000 * n); }

}  // namespace

TEST_CASE("the first launch of every key is taken") {
  Simulation simulation({100, 64, 196608});
  for (std::uint64_t round = 0; round < 3; ++round) {
    for (std::uint64_t key = 0; key < 47; ++key) {
      const std::uint64_t before = simulation.firsts;
      (void)simulation.launch(key_of(key));
      CHECK(simulation.firsts - before == (round == 0 ? 1u : 0u));
    }
  }
  CHECK(simulation.firsts == 47);
  CHECK(simulation.refused == 0);
}

TEST_CASE("kernels that alternate are sampled alike") {
  Simulation simulation({1000, 6400, 196608});
  simulation.cost_ns = 1;  // the budget never binds here: only the gaps matter
  simulation.bytes = 1;
  std::uint64_t taken[2] = {};
  for (std::uint64_t launch = 0; launch < 400'000; ++launch) {
    if (simulation.launch(key_of(launch % 2))) ++taken[launch % 2];
  }
  const std::uint64_t total = taken[0] + taken[1];
  // N is 32 until the first tick: 12,500 expected. Five standard deviations of a fair coin are 280.
  CHECK(total > 12'000);
  CHECK(total < 13'000);
  CHECK(taken[0] > total / 2 - 300);
  CHECK(taken[0] < total / 2 + 300);
}

TEST_CASE("N follows the time budget and recovers when launches slow down") {
  Simulation simulation({100, 6400, 196608});
  const auto tick = [&](std::uint64_t launches) {
    const std::uint64_t before = simulation.snapshots;
    for (std::uint64_t at = 0; at < launches; ++at) (void)simulation.launch(key_of(at % 20));
    simulation.sampler->tick({kTickNs, launches, 1});
    return simulation.snapshots - before;
  };
  for (int i = 0; i < 30; ++i) (void)tick(20'000);
  // 1 % of 100 ms is 1 ms: 200 snapshots of 5 us.
  std::uint64_t busy = 0;
  for (int i = 0; i < 20; ++i) busy += tick(20'000);
  CHECK(busy > 20 * 150);
  CHECK(busy <= 20 * 210);
  const std::uint32_t busy_interval = simulation.sampler->interval();
  CHECK(busy_interval >= 90);
  CHECK(busy_interval <= 130);
  for (int i = 0; i < 30; ++i) (void)tick(100);
  CHECK(simulation.sampler->interval() == 1);  // few launches: all of them fit
  CHECK(tick(100) == 100);
}

TEST_CASE("the byte budget binds too") {
  Simulation simulation({10000, 8, 196608});
  std::uint64_t before = 0;
  for (int i = 0; i < 60; ++i) {
    if (i == 40) before = simulation.snapshots;
    for (int at = 0; at < 10'000; ++at) (void)simulation.launch(key_of(0));
    simulation.sampler->tick({kTickNs, 10'000, 1});
  }
  // 8 MiB/s in 2 s are 204 snapshots of 80 KiB.
  const std::uint64_t in_two_seconds = simulation.snapshots - before;
  CHECK(in_two_seconds > 140);
  CHECK(in_two_seconds <= 220);
}

TEST_CASE("a flood of keys is bounded by the budget, and random samples go on") {
  Simulation simulation({100, 64, 196608});
  std::uint64_t key = 0;
  std::uint64_t ns = 0;
  std::uint64_t late_random = 0;
  for (int i = 0; i < 100; ++i) {
    const std::uint64_t snapshots = simulation.snapshots;
    const std::uint64_t firsts = simulation.firsts;
    for (int at = 0; at < 10'000; ++at) (void)simulation.launch(key_of(++key % 60'000));
    simulation.sampler->tick({kTickNs, 10'000, 1});
    if (i >= 50) late_random += (simulation.snapshots - snapshots) - (simulation.firsts - firsts);
  }
  ns = simulation.snapshots * simulation.cost_ns;
  // 10 s at 1 %, and what the bucket held at the start (one second's worth).
  CHECK(ns <= 100'000'000 + 10'000'000 + 1'000'000);
  CHECK(simulation.refused > 10'000);
  CHECK(simulation.refused <= 60'000);  // once per key
  CHECK(late_random > 1'000);
}

TEST_CASE("threads that begin to launch do not take the first launches of new keys away") {
  Simulation simulation({100, 6400, 196608});
  std::uint64_t key = 0;
  for (const std::uint64_t threads : {1, 1, 8, 8, 1, 3}) {
    for (int at = 0; at < 10; ++at) (void)simulation.launch(key_of(++key));
    simulation.sampler->tick({kTickNs, 10, threads});
  }
  CHECK(simulation.firsts == 60);
  CHECK(simulation.refused == 0);
}

TEST_CASE("a full key table refuses and counts, and still samples") {
  auto sampler = std::make_unique<Sampler>();
  sampler->begin({10000, 64000, 196608});
  ThreadState thread{};
  thread.random = 99;
  std::uint64_t refused = 0;
  std::uint64_t random = 0;
  for (std::uint64_t key = 1; key < 300'000; ++key) {
    const SampleDecision decision = sampler->decide(thread, thread.until_sample, key_of(key));
    if (decision.key_refused) ++refused;
    if (decision.reason == SampleReason::random) ++random;
  }
  CHECK(refused > 200'000);
  CHECK(random > 5'000);
}

TEST_CASE("the key table holds each key once, whoever puts it there") {
  auto table = std::make_unique<KeyTable<4096>>();
  constexpr std::uint64_t kKeys = 1500;
  std::atomic<std::uint64_t> inserted{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (std::uint64_t key = 0; key < kKeys; ++key) {
        bool is_new = false;
        if (table->find_or_insert(key_of(key), &is_new) != nullptr && is_new) ++inserted;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(inserted == kKeys);
  std::set<void*> slots;
  for (std::uint64_t key = 0; key < kKeys; ++key) {
    bool is_new = false;
    slots.insert(table->find_or_insert(key_of(key), &is_new));
    CHECK_FALSE(is_new);
  }
  CHECK(slots.size() == kKeys);
}

TEST_CASE("context keys differ by thread, stack pointer and function") {
  std::set<std::uint64_t> keys;
  for (std::uint32_t tid = 100; tid < 110; ++tid) {
    for (std::uint64_t sp = 0; sp < 100; ++sp) {
      for (std::uint64_t function = 0; function < 10; ++function) {
        keys.insert(context_key(tid, 0x7ffd0000'0000 + sp * 16, 0x5555'0000 + function * 64) & ~3ull);
      }
    }
  }
  CHECK(keys.size() == 10'000);
}
