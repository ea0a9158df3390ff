// SPDX-License-Identifier: Apache-2.0
#include <atomic>
#include <catch2/catch_test_macros.hpp>
#include <cstring>
#include <string>
#include <thread>

#include "arming.h"
#include "detach.h"
#include "fake_cupti.h"
#include "graph_threads.h"
#include "system_calls.h"

using namespace pillion;
using namespace pillion::shim;
using pillion::shim::test::FakeCupti;

namespace {

constexpr cupti::ActivityKind kKinds[] = {cupti::kActivityConcurrentKernel, cupti::kActivityMemcpy};

FinalizeBudget g_budget;

DetachSubject subject(const FakeCupti& fake) {
  return {&fake.api, nullptr, kKinds, 2, true, true, true, &g_budget};
}

// As in a process in which no graph was ever launched and no kind disabled.
void begin_anew() {
  g_budget = {};
  forget_graph_threads();
  note_finalized_elsewhere();
}

// A thread of the program that makes API calls until it is told to stop: each call's exit looks as the
// callback does.
class Caller {
 public:
  explicit Caller(bool launches_graphs) {
    thread_ = std::thread([this, launches_graphs] {
      ThreadState state{};
      state.tid = this_tid();
      if (launches_graphs) note_graph_launch(state, 1, monotonic_ns());
      tid_ = state.tid;
      while (!stop_) {
        if (detach_pending()) detach_at_api_exit();
        std::this_thread::yield();
      }
    });
    while (tid_ == 0) std::this_thread::yield();
  }
  ~Caller() {
    stop_ = true;
    thread_.join();
  }

 private:
  std::atomic<bool> stop_{false};
  std::atomic<std::uint32_t> tid_{0};
  std::thread thread_;
};

bool disabled(const FakeCupti& fake) { return fake.count("disable 10") + fake.count("disable 1") > 0; }

}  // namespace

TEST_CASE("without graphs any thread's API exit finalises, with the kinds still enabled") {
  FakeCupti fake;
  begin_anew();
  const Caller caller(false);
  CHECK(detach(subject(fake), true, 5000) == PILLION_RESIDUE_FINALIZED);
  CHECK(fake.calls() == std::vector<std::string>{"unsubscribe", "finalize"});
}

TEST_CASE("with one graph thread only that thread finalises") {
  FakeCupti fake;
  begin_anew();
  const Caller kernels(false);
  {
    const Caller graphs(true);
    CHECK(detach(subject(fake), true, 5000) == PILLION_RESIDUE_FINALIZED);
    CHECK(fake.calls() == std::vector<std::string>{"unsubscribe", "finalize"});
  }
}

TEST_CASE("when the graph thread makes no call, other threads' exits do not finalise") {
  FakeCupti fake;
  begin_anew();
  ThreadState graphs{};
  graphs.tid = this_tid();  // this thread, which waits below
  note_graph_launch(graphs, 1, monotonic_ns());
  const Caller kernels(false);
  CHECK(detach(subject(fake), true, 50) == PILLION_RESIDUE_NO_API_CALL);
  CHECK(fake.count("finalize") == 0);
  CHECK(fake.count("unsubscribe") == 1);
  CHECK(disabled(fake));
}

TEST_CASE("for a graph thread that is no more nobody waits") {
  FakeCupti fake;
  begin_anew();
  std::uint32_t tid = 0;
  std::thread([&] {
    ThreadState graphs{};
    tid = graphs.tid = this_tid();
    note_graph_launch(graphs, 1, monotonic_ns());
  }).join();
  while (!thread_is_gone(tid)) std::this_thread::yield();
  const std::uint64_t begun = monotonic_ns();
  CHECK(detach(subject(fake), true, 60'000) == PILLION_RESIDUE_NO_API_CALL);
  CHECK(monotonic_ns() - begun < 30'000'000'000u);
  CHECK(fake.count("finalize") == 0);
  note_finalized_elsewhere();
}

TEST_CASE("two graph threads: disabled and unsubscribed, never finalised") {
  FakeCupti fake;
  begin_anew();
  const Caller first(true);
  const Caller second(true);
  CHECK(detach(subject(fake), true, 1000) == PILLION_RESIDUE_GRAPHS);
  CHECK(fake.count("finalize") == 0);
  CHECK(fake.place("disable 10") < fake.place("unsubscribe"));
}

TEST_CASE("an old library with graphs is never finalised") {
  FakeCupti fake;
  fake.api.version = 22;
  begin_anew();
  const Caller graphs(true);
  CHECK(detach(subject(fake), true, 1000) == PILLION_RESIDUE_OLD_CUPTI);
  CHECK(fake.count("finalize") == 0);
}

TEST_CASE("no API call: the pending finalize is cancelled for good") {
  FakeCupti fake;
  begin_anew();
  CHECK(detach(subject(fake), true, 20) == PILLION_RESIDUE_NO_API_CALL);
  CHECK_FALSE(detach_pending());
  detach_at_api_exit();  // a call that comes after all
  CHECK(fake.count("finalize") == 0);
  CHECK(fake.count("unsubscribe") == 1);
}

TEST_CASE("not asked to finalise") {
  FakeCupti fake;
  begin_anew();
  CHECK(detach(subject(fake), false, 1000) == PILLION_RESIDUE_NOT_ASKED);
  CHECK(fake.count("finalize") == 0);
  CHECK(fake.count("disable 10") == 1);
  CHECK(fake.count("unsubscribe") == 1);
}

TEST_CASE("a thread that looked at one detach does not carry out the next") {
  FakeCupti fake;
  begin_anew();
  // The first detach may be taken by any thread; one looks at it, and gets no further before it is called
  // off.
  std::uint32_t stale = 0;
  std::thread first([&] { CHECK(detach(subject(fake), true, 300) == PILLION_RESIDUE_NO_API_CALL); });
  while ((stale = detach_offer()) == 0) std::this_thread::yield();
  first.join();
  // The second one belongs to a thread that replays graphs, and to nobody else: on another thread it would
  // kill.
  std::atomic<bool> leave{false};
  std::atomic<std::uint32_t> tid{0};
  std::thread elsewhere([&] {
    ThreadState graphs{};
    graphs.tid = this_tid();
    note_graph_launch(graphs, 1, monotonic_ns());
    tid = graphs.tid;
    while (!leave) std::this_thread::yield();
  });
  while (tid == 0) std::this_thread::yield();
  std::thread second([&] { CHECK(detach(subject(fake), true, 300) == PILLION_RESIDUE_NO_API_CALL); });
  while (!detach_pending()) std::this_thread::yield();
  take_detach(stale);
  CHECK(fake.count("finalize") == 0);
  second.join();
  leave = true;
  elsewhere.join();
  note_finalized_elsewhere();
  forget_graph_threads();
}

TEST_CASE("a pending finalize is called off by the next arming") {
  FakeCupti fake;
  begin_anew();
  std::thread waiting([&] { CHECK(detach(subject(fake), true, 60'000) == PILLION_RESIDUE_NO_API_CALL); });
  while (!detach_pending()) std::this_thread::yield();
  const std::uint32_t offer = detach_offer();
  call_off_detach();
  waiting.join();
  take_detach(offer);
  CHECK_FALSE(detach_pending());
  CHECK(fake.count("finalize") == 0);
}

TEST_CASE("after a detach that had to disable kinds under graphs CUPTI is not finalised any more") {
  FakeCupti fake;
  begin_anew();
  {
    const Caller first(true);
    const Caller second(true);
    CHECK(detach(subject(fake), true, 1000) == PILLION_RESIDUE_GRAPHS);
  }
  forget_graph_threads();  // much later
  const Caller kernels(false);
  CHECK(detach(subject(fake), true, 1000) == PILLION_RESIDUE_DISABLED_BEFORE);
  CHECK(fake.count("finalize") == 0);
  note_finalized_elsewhere();
  CHECK(detach(subject(fake), true, 5000) == PILLION_RESIDUE_FINALIZED);
}

TEST_CASE("kinds disabled before any graph was recorded do no harm") {
  FakeCupti fake;
  begin_anew();
  CHECK(detach(subject(fake), false, 0) == PILLION_RESIDUE_NOT_ASKED);
  const Caller graphs(true);
  CHECK(detach(subject(fake), true, 5000) == PILLION_RESIDUE_FINALIZED);
}

TEST_CASE(
    "beside another client that meddles with CUPTI nothing is finalised, and what is its is left alone") {
  FakeCupti fake;
  begin_anew();
  const Caller kernels(false);
  DetachSubject taken = subject(fake);
  taken.alone = taken.buffers_ours = false;
  taken.kind_count = 0;
  CHECK(detach(taken, true, 1000) == PILLION_RESIDUE_FOREIGN);
  CHECK(fake.calls() == std::vector<std::string>{"unsubscribe"});
  FakeCupti finalized;
  taken = subject(finalized);
  taken.alone = taken.buffers_ours = taken.subscription_ours = false;
  taken.kind_count = 0;
  CHECK(detach(taken, true, 1000) == PILLION_RESIDUE_FOREIGN);
  CHECK(finalized.calls().empty());
}

TEST_CASE("graph threads of an earlier session count on while they are recent") {
  forget_graph_threads();
  constexpr std::uint64_t kSecond = 1'000'000'000;
  ThreadState one{};
  one.tid = 100;
  ThreadState other{};
  other.tid = 200;
  note_graph_launch(one, 7, 100 * kSecond);
  note_graph_launch(other, 7, 101 * kSecond);
  begin_graph_session(102 * kSecond);
  note_graph_launch(one, 8, 103 * kSecond);
  CHECK(graph_use(104 * kSecond).kind == GraphUse::several);
  // The same thread in two sessions is one.
  begin_graph_session(140 * kSecond);
  CHECK(graph_use(140 * kSecond).kind == GraphUse::none);
  note_graph_launch(one, 9, 141 * kSecond);
  begin_graph_session(142 * kSecond);
  note_graph_launch(one, 10, 143 * kSecond);
  CHECK(graph_use(144 * kSecond).kind == GraphUse::one_thread);
  CHECK(graph_use(144 * kSecond).tid == 100);
  forget_graph_threads();
}

TEST_CASE("more graph threads than can be told apart are several") {
  forget_graph_threads();
  for (std::uint32_t i = 0; i < kGraphThreadsMax + 5; ++i) {
    ThreadState thread{};
    thread.tid = 100 + i;
    note_graph_launch(thread, 3, 1000);
    note_graph_launch(thread, 3, 2000);
  }
  CHECK(graph_use(3000).kind == GraphUse::several);
  forget_graph_threads();
  CHECK(graph_use(3000).kind == GraphUse::none);
}

TEST_CASE("a graph thread that has been quiet for long does not count against the one that launches") {
  forget_graph_threads();
  ThreadState old{};
  old.tid = 100;
  ThreadState now{};
  now.tid = 200;
  note_graph_launch(old, 4, 1'000'000'000);
  note_graph_launch(now, 4, 100'000'000'000);
  const GraphUse use = graph_use(100'000'000'001);
  CHECK(use.kind == GraphUse::one_thread);
  CHECK(use.tid == 200);
  note_graph_launch(old, 4, 100'000'000'001);
  CHECK(graph_use(100'000'000'002).kind == GraphUse::several);
  forget_graph_threads();
}

TEST_CASE("arming sets the clock before any kind and enables kinds before callbacks") {
  FakeCupti fake;
  Subscription subscription{};
  pillion_refused refused{};
  REQUIRE(subscribe_cupti(fake.api, &subscription, &refused));
  REQUIRE(enable_recording(fake.api, PILLION_KIND_ALL, &subscription, &refused));
  CHECK(fake.place("subscribe_v2") == 0);
  CHECK(fake.count("subscribe") == 0);
  CHECK(fake.place("register_timestamp") < fake.place("enable 10"));
  CHECK(fake.place("register_callbacks") < fake.place("enable 10"));
  for (const char* kind : {"enable 10", "enable 1", "enable 2", "enable 22", "enable 17", "dump 8"}) {
    INFO(kind);
    CHECK(fake.place(kind) >= 0);
    CHECK(fake.place(kind) < fake.place("callback 1/307"));
  }
  CHECK(fake.count("enable 3") == 0);   // KERNEL serialises
  CHECK(fake.count("enable 51") == 0);  // GRAPH_TRACE crashes a program that is already running
  CHECK(fake.count("callback 1/514") == 1);
  CHECK(fake.count("callback 3/8") == 1);
  CHECK(fake.count("callback 6/1") == 1);
  CHECK(subscription.in_force ==
        (PILLION_KIND_KERNEL | PILLION_KIND_MEMCPY | PILLION_KIND_MEMSET | PILLION_KIND_PEER_COPY |
         PILLION_KIND_OVERHEAD | PILLION_KIND_MODULES | PILLION_KIND_SYNC | PILLION_KIND_CALLS));
  CHECK(fake.count("callback 1/126") == 1);
  CHECK(fake.count("callback 1/125") == 0);  // a query does not wait
}

TEST_CASE("a held subscriber is named and CUPTI is not touched again") {
  FakeCupti fake;
  fake.fail("subscribe_v2", cupti::kErrorMultipleSubscribers);
  fake.set_holder("CUPTI for Kineto");
  Subscription subscription{};
  pillion_refused refused{};
  CHECK_FALSE(subscribe_cupti(fake.api, &subscription, &refused));
  CHECK(refused.reason == PILLION_REFUSAL_SUBSCRIBER_HELD);
  CHECK(refused.cupti_result == 39);
  CHECK(std::string(refused.holder) == "CUPTI for Kineto");
  CHECK(fake.calls() == std::vector<std::string>{"subscribe_v2"});
}

TEST_CASE("an old library cannot name the holder") {
  FakeCupti fake;
  fake.api.subscribe_v2 = nullptr;
  fake.fail("subscribe", cupti::kErrorMultipleSubscribers);
  Subscription subscription{};
  pillion_refused refused{};
  CHECK_FALSE(subscribe_cupti(fake.api, &subscription, &refused));
  CHECK(std::string(refused.holder) == "unknown");
  CHECK(fake.calls() == std::vector<std::string>{"subscribe"});
}

TEST_CASE("the clock is registered once per process, unless CUPTI has forgotten it") {
  FakeCupti fake;
  Subscription subscription{};
  pillion_refused refused{};
  REQUIRE(subscribe_cupti(fake.api, &subscription, &refused));
  const int before = fake.count("register_timestamp");
  REQUIRE(subscribe_cupti(fake.api, &subscription, &refused));
  CHECK(fake.count("register_timestamp") == before);
  fake.set_clock_is_monotonic(false);
  REQUIRE(subscribe_cupti(fake.api, &subscription, &refused));
  CHECK(fake.count("register_timestamp") == before + 1);
}

TEST_CASE("what fails on the way is undone and named") {
  FakeCupti fake;
  Subscription subscription{};
  pillion_refused refused{};
  fake.fail("callback 1/307", 7);
  REQUIRE(subscribe_cupti(fake.api, &subscription, &refused));
  CHECK_FALSE(enable_recording(fake.api, PILLION_KIND_KERNEL | PILLION_KIND_MEMCPY, &subscription, &refused));
  CHECK(refused.reason == PILLION_REFUSAL_CUPTI_ERROR);
  CHECK(refused.cupti_result == 7);
  CHECK(std::string(refused.text).find("cuLaunchKernel") != std::string::npos);
  CHECK(fake.count("disable 10") == 1);
  CHECK(fake.count("disable 1") == 1);
  CHECK(fake.count("disable 8") == 1);
  CHECK(fake.count("unsubscribe") == 1);
}

TEST_CASE("a kind that the library does not know is left out, kernels are not optional") {
  FakeCupti fake;
  fake.fail("enable 22", cupti::kErrorNotCompatible);
  Subscription subscription{};
  pillion_refused refused{};
  REQUIRE(subscribe_cupti(fake.api, &subscription, &refused));
  REQUIRE(enable_recording(fake.api, PILLION_KIND_ALL, &subscription, &refused));
  CHECK((subscription.in_force & PILLION_KIND_PEER_COPY) == 0);
  CHECK((subscription.in_force & PILLION_KIND_KERNEL) != 0);
  FakeCupti broken;
  broken.fail("enable 10", 15);
  REQUIRE(subscribe_cupti(broken.api, &subscription, &refused));
  CHECK_FALSE(enable_recording(broken.api, PILLION_KIND_ALL, &subscription, &refused));
  CHECK(broken.count("unsubscribe") == 1);
}

TEST_CASE("a process in which CUPTI was finalised often is left without, and said so") {
  FakeCupti fake;
  begin_anew();
  const Caller caller(false);
  for (std::uint32_t i = 0; i < FinalizeBudget::kAtOnce; ++i)
    REQUIRE(detach(subject(fake), true, 5000) == PILLION_RESIDUE_FINALIZED);
  CHECK(detach(subject(fake), true, 5000) == PILLION_RESIDUE_FINALIZED_OFTEN);
  CHECK(fake.count("finalize") == FinalizeBudget::kAtOnce);
  CHECK(disabled(fake));
}
