// SPDX-License-Identifier: Apache-2.0
// What an idle profile asks of the Joiner.
#include <catch2/catch_test_macros.hpp>
#include <vector>

#include "join/joiner.h"
#include "records.h"

namespace pillion::join {
namespace {

struct Seen : SettledObserver {
  void on_settled(const Settled& settled) override { all.push_back(settled); }
  std::vector<Settled> all;
};

TEST_CASE("an observer sees each execution once, with its launch, when its stack has come") {
  Session s;
  Seen seen;
  s.joiner.observe(&seen);
  s.joiner.on_launch(launch(5, kArmed + 10, true, 77));
  s.joiner.on_execution(kernel(5, kArmed + 100, kArmed + 350));
  CHECK(seen.all.empty());
  std::vector<Settled> waiting;
  s.joiner.visit_waiting([&](const Settled& settled) { waiting.push_back(settled); });
  REQUIRE(waiting.size() == 1);
  CHECK(waiting[0].launched_ns == kArmed + 10);
  CHECK(waiting[0].sample.attribution == Attribution::context);
  s.joiner.on_stack(5, 77, 9, StackEnding::rooted);
  REQUIRE(seen.all.size() == 1);
  CHECK(seen.all[0].launched_ns == kArmed + 10);
  CHECK(seen.all[0].end_ns == kArmed + 350);
  CHECK(seen.all[0].sample.gpu_ns == 250);
  CHECK(seen.all[0].sample.stack == 9);
  s.joiner.visit_waiting([](const Settled&) { FAIL("nothing waits any more"); });
}

TEST_CASE("an execution without launch is seen with none, and waits before that") {
  Session s;
  Seen seen;
  s.joiner.observe(&seen);
  s.joiner.on_execution(kernel(5, kArmed + 100, kArmed + 350));
  int waiting = 0;
  s.joiner.visit_waiting([&](const Settled& settled) { waiting += settled.launched_ns == 0 ? 1 : 0; });
  CHECK(waiting == 1);
  s.drains(4);
  REQUIRE(seen.all.size() == 1);
  CHECK(seen.all[0].launched_ns == 0);
}

TEST_CASE("a copy has its other end; whatever is no copy between devices has none") {
  Session s;
  Seen seen;
  s.joiner.observe(&seen);
  RawExecution copy = kernel(5, kArmed + 100, kArmed + 350);
  copy.kind = ExecutionKind::copy;
  copy.device = copy.source_device = 2;
  copy.destination_device = 3;
  RawExecution back = copy;
  back.correlation = 6;
  back.source_device = 3;
  back.destination_device = 2;
  RawExecution plain = kernel(7, kArmed + 100, kArmed + 350);
  plain.device = 4;  // its source and destination stay 0
  for (const std::uint32_t id : {5u, 6u, 7u}) s.joiner.on_launch(launch(id, kArmed + 10));
  for (const RawExecution& execution : {copy, back, plain}) s.joiner.on_execution(execution);
  REQUIRE(seen.all.size() == 3);
  CHECK(seen.all[0].other_device == 3);
  CHECK(seen.all[1].other_device == 3);
  CHECK(seen.all[2].other_device == 4);
}

TEST_CASE("the first launch without an execution, before a time") {
  Session s;
  CHECK_FALSE(s.joiner.first_pending(kArmed + kSecond).has_value());
  s.joiner.on_launch(launch(5, kArmed + 10));
  s.joiner.on_launch(launch(6, kArmed + 20, true, 77));
  s.joiner.on_launch(launch(7, kArmed + 30));
  s.joiner.on_execution(kernel(5, kArmed + 15, kArmed + 18));
  auto pending = s.joiner.first_pending(kArmed + kSecond);
  REQUIRE(pending);
  CHECK(pending->launched_ns == kArmed + 20);
  CHECK(pending->sample.attribution == Attribution::context);  // its stack is not known yet
  CHECK(pending->context_key == 77);
  CHECK(pending->sample.tid == 100);
  CHECK(pending->sample.cbid == 307);
  s.joiner.on_stack(6, 77, 9, StackEnding::rooted);
  CHECK(s.joiner.first_pending(kArmed + kSecond)->sample.stack == 9);
  CHECK_FALSE(s.joiner.first_pending(kArmed + 20).has_value());
}

TEST_CASE("idle time of a context key goes to the stacks seen for it, to the last nanosecond") {
  Session s;
  for (const auto& [id, stack] : {std::pair{1u, 8u}, {2u, 9u}, {3u, 9u}}) {
    s.joiner.on_launch(launch(id, kArmed + id, true, 77));
    s.joiner.on_stack(id, 77, stack, StackEnding::rooted);
  }
  IdleSample sample;
  sample.launch.attribution = Attribution::context;
  sample.context_key = 77;
  sample.ns = 1001;
  sample.gaps = 4;
  std::vector<IdleSample> out;
  s.joiner.spread(sample, out);
  REQUIRE(out.size() == 2);
  CHECK(out[0].launch.stack == 8);
  CHECK(out[0].ns + out[1].ns == 1001);
  CHECK(out[1].ns == 667);
  CHECK(out[0].gaps + out[1].gaps == 4);
  CHECK(out[0].context_key == 0);

  sample.context_key = 78;  // of which no stack was ever seen
  s.joiner.spread(sample, out);
  REQUIRE(out.size() == 3);
  CHECK(out[2].launch.attribution == Attribution::unsampled);
  CHECK(out[2].ns == 1001);

  sample.launch.attribution = Attribution::exact;
  sample.launch.stack = 5;
  s.joiner.spread(sample, out);
  CHECK(out.back().launch.stack == 5);
}

TEST_CASE("a thread is described where it is known") {
  Session s;
  s.joiner.on_thread({100, 0, 0, "worker"});
  WindowData data;
  s.joiner.describe_thread(100, data);
  s.joiner.describe_thread(101, data);
  CHECK(data.threads.size() == 1);
  CHECK(data.threads.at(100) == "worker");
}

}  // namespace
}  // namespace pillion::join
