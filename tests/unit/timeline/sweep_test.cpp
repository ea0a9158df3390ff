// SPDX-License-Identifier: Apache-2.0
// Every cause, to the nanosecond, on scripted timelines of one device.
#include <catch2/catch_test_macros.hpp>

#include <vector>

#include "timeline_fixture.h"

namespace pillion::timeline {
namespace {

const Script kKernel;
const Script kCopy{.stream = 8, .kind = ExecutionKind::copy};
const Script kSet{.stream = 9, .kind = ExecutionKind::set};

TEST_CASE("a launch that came after the gap began: host-bound before the call, queued after it") {
  OneWindow w(1000);
  w.run(kKernel.ran(1, -50, -10, 100));
  w.run(kKernel.ran(2, 340, 350, 1000));
  const IdleData data = w.close();
  CHECK(adds_up(data));
  CHECK(ns(data, {2, IdleCause::host_bound}) == 240);
  CHECK(ns(data, {2, IdleCause::queued}) == 10);
  REQUIRE(data.devices.size() == 1);
  CHECK(data.devices[0].busy_ns == 750);
  CHECK(data.samples.size() == 2);
}

TEST_CASE("what had been launched when the gap began is queued for all of it") {
  OneWindow w(1000);
  w.run(kKernel.ran(1, -50, 0, 100));
  w.run(kKernel.ran(2, -20, 350, 1000));
  const IdleData data = w.close();
  CHECK(adds_up(data));
  CHECK(ns(data, {2, IdleCause::queued}) == 250);
  CHECK(data.samples.size() == 1);
}

TEST_CASE("a wait for the GPU makes so much of the gap synchronising as it delayed the launch") {
  OneWindow w(1000);
  w.run(kKernel.ran(1, -50, 0, 100));
  w.run(kKernel.ran(2, 160, 165, 200));   // 60 late, and the host had waited for 70
  w.run(kKernel.ran(3, 400, 410, 1000));  // 200 late, and it had waited for 30
  w.timeline.on_host_sync(kSession, sync_call(34, 104));
  w.timeline.on_host_sync(kSession, sync_call(180, 210));
  const IdleData data = w.close();
  CHECK(adds_up(data));
  CHECK(ns(data, {2, IdleCause::synchronising}) == 60);
  CHECK(ns(data, {2, IdleCause::host_bound}) == 0);
  CHECK(ns(data, {2, IdleCause::queued}) == 5);
  CHECK(ns(data, {3, IdleCause::synchronising}) == 30);
  CHECK(ns(data, {3, IdleCause::host_bound}) == 170);
  CHECK(ns(data, {3, IdleCause::queued}) == 10);
}

TEST_CASE("a wait counts between the launches, whatever the two clocks' difference") {
  OneWindow w(1000);
  w.run(kKernel.ran(1, 10, 20, 103));  // by the GPU's clock it ended 3 after the host had heard of it
  w.run(kKernel.ran(2, 150, 160, 1000));
  w.timeline.on_host_sync(kSession, sync_call(12, 100));
  const IdleData data = w.close();
  CHECK(adds_up(data));
  CHECK(ns(data, {2, IdleCause::synchronising}) == 47);
}

TEST_CASE("waits that do not hold the launch up make nothing synchronising") {
  OneWindow w(1000);
  w.run(kKernel.ran(1, 50, 60, 100));
  w.run(kKernel.ran(2, 300, 310, 1000));
  w.timeline.on_host_sync(kSession, sync_call(0, 50));                 // over before the launch in front
  w.timeline.on_host_sync(kSession, sync_call(90, 200, kThread + 1));  // of another thread
  w.timeline.on_host_sync(kSession, sync_call(290, 400));              // still goes on: a callback launched
  w.timeline.on_host_sync(kSession + 1, sync_call(90, 200));           // of another process
  const IdleData data = w.close();
  CHECK(adds_up(data));
  CHECK(ns(data, {2, IdleCause::host_bound}) == 200);
  CHECK(ns(data, {2, IdleCause::synchronising}) == 0);
}

TEST_CASE("a copy and nothing else: cause copy, charged to the kernel; the wait for the copy to the copy") {
  OneWindow w(1000);
  w.run(kKernel.ran(1, -50, 0, 100));
  w.run(kCopy.ran(5, 150, 160, 260));
  w.run(kKernel.ran(2, 155, 270, 1000));
  const IdleData data = w.close();
  CHECK(adds_up(data));
  CHECK(ns(data, {5, IdleCause::host_bound}) == 50);
  CHECK(ns(data, {5, IdleCause::queued}) == 10);
  CHECK(ns(data, {2, IdleCause::copy}) == 100);
  CHECK(ns(data, {2, IdleCause::queued}) == 10);
  CHECK(data.devices.at(0).busy_ns == 100 + 730);
}

TEST_CASE("copies that overlap each other, kernels and both ends of a gap count once") {
  OneWindow w(1000);
  w.run(kKernel.ran(1, -50, 0, 100));
  w.run(kCopy.ran(5, 20, 50, 150));
  w.run(kCopy.ran(6, 20, 120, 180));
  w.run(kCopy.ran(7, 20, 130, 140));
  w.run(kCopy.ran(8, 20, 300, 900));
  w.run(kKernel.ran(2, 20, 400, 1000));
  const IdleData data = w.close();
  CHECK(adds_up(data));
  CHECK(ns(data, {2, IdleCause::copy}) == 80 + 100);
  CHECK(ns(data, {8, IdleCause::queued}) == 120);
  CHECK(data.samples.size() == 2);
}

TEST_CASE("a gap that a launch ended of which nothing is known is unknown") {
  OneWindow w(1000);
  w.run(kKernel.ran(1, -50, 0, 100));
  Ran lost = kKernel.ran(0, 0, 300, 1000);
  lost.launched_ns = 0;
  lost.launch.attribution = Attribution::launch_lost;
  lost.launch.tid = 0;
  w.run(lost);
  const IdleData data = w.close();
  CHECK(adds_up(data));
  REQUIRE(data.samples.size() == 1);
  CHECK(data.samples[0].cause == IdleCause::unknown);
  CHECK(data.samples[0].ns == 200);
  CHECK(data.samples[0].ended);
  CHECK(data.samples[0].launch.attribution == Attribution::launch_lost);
}

TEST_CASE("a memset keeps the device busy, and is no kernel") {
  OneWindow w(1000);
  w.run(kSet.ran(3, -50, 0, 400));
  w.run(kKernel.ran(1, -50, 300, 1000));
  const IdleData data = w.close();
  CHECK(adds_up(data));
  CHECK(data.samples.empty());
  CHECK(data.devices.at(0).busy_ns == 1000);
  CHECK(data.devices.at(0).kernel_ns == 700);
  CHECK(data.devices.at(0).kernel_busy_ns == 700);
}

TEST_CASE("kernels of several streams overlap: busy is their union, concurrency their sum over it") {
  OneWindow w(1000);
  const Script other{.stream = 20};
  w.run(kKernel.ran(1, -50, -20, 300));
  w.run(other.ran(2, -50, 100, 500));
  w.run(kKernel.ran(3, -50, 200, 250));
  w.run(other.ran(4, -50, 800, 1200));
  const IdleData data = w.close();
  CHECK(adds_up(data));
  CHECK(data.devices.at(0).busy_ns == 500 + 200);
  CHECK(data.devices.at(0).kernel_busy_ns == 700);
  CHECK(data.devices.at(0).kernel_ns == 300 + 400 + 50 + 200);
  CHECK(ns(data, {4, IdleCause::queued}) == 300);
}

TEST_CASE("of two that end a gap together, the one that was launched first did") {
  OneWindow w(1000);
  const Script other{.stream = 20};
  w.run(kKernel.ran(1, -50, 0, 100));
  w.run(other.ran(2, 150, 200, 1000));
  w.run(kKernel.ran(3, 120, 200, 1000));
  const IdleData data = w.close();
  CHECK(adds_up(data));
  CHECK(ns(data, {3, IdleCause::host_bound}) == 20);
  CHECK(ns(data, {3, IdleCause::queued}) == 80);
}

TEST_CASE("gaps at the window's edges are rows of their own") {
  OneWindow w(1000);
  w.run(kKernel.ran(1, -300, -200, -100));  // the gap began before the window
  w.run(kKernel.ran(2, 30, 50, 100));
  w.run(kKernel.ran(2, 150, 160, 200));  // the same place, inside
  IdleTimeline::Open open;
  open.pending[kSession] = kKernel.ran(9, 900, 0, 0);
  const IdleData data = w.close(open);
  CHECK(adds_up(data));
  CHECK(ns(data, {2, IdleCause::host_bound, IdleEdge::begin}) == 30);
  CHECK(ns(data, {2, IdleCause::queued, IdleEdge::begin}) == 20);
  CHECK(ns(data, {2, IdleCause::host_bound}) == 50);
  CHECK(ns(data, {2, IdleCause::queued}) == 10);
  CHECK(ns(data, {0, IdleCause::host_bound, IdleEdge::end}) == 700);
  CHECK(pending_ns(data, {9, IdleCause::unknown, IdleEdge::end}) == 100);
}

TEST_CASE("a launch from before the window whose execution does not come has all of it, on each device") {
  OneWindow w(1000);
  w.timeline.on_context(kSession, 0);
  w.timeline.on_context(kSession, 1);
  w.timeline.add_session(kSession + 1, 43);
  w.timeline.on_context(kSession + 1, 2);
  w.timeline.enter_window(1, kSession + 1);
  IdleTimeline::Open open;
  open.pending[kSession] = kKernel.ran(9, -500, 0, 0);
  const IdleData data = w.close(open);
  CHECK(adds_up(data));
  for (const std::uint32_t device : {0u, 1u}) {
    INFO(device);
    CHECK(pending_ns(data, {9, IdleCause::unknown, IdleEdge::both}, device) == 1000);
  }
  CHECK(ns(data, {0, IdleCause::host_bound, IdleEdge::both}, 2) == 1000);  // another process's
  for (const IdleSample& sample : data.samples) CHECK(sample.pending == (sample.launch.tid != 0));
}

TEST_CASE("what was launched in the window and began after it ends the last gap") {
  OneWindow w(1000);
  w.run(kKernel.ran(1, -50, 0, 400));
  w.run(kKernel.ran(2, 900, 1100, 1200));
  w.run(kKernel.ran(3, 1000, 1050, 1100));  // launched after it: no concern of this window
  const IdleData data = w.close();
  CHECK(adds_up(data));
  CHECK(ns(data, {2, IdleCause::host_bound, IdleEdge::end}) == 500);
  CHECK(ns(data, {2, IdleCause::queued, IdleEdge::end}) == 100);
  CHECK(data.samples.size() == 2);
}

TEST_CASE("a window without an execution is one gap with two edges") {
  OneWindow w(1000);
  w.timeline.on_context(kSession, 0);
  const IdleData data = w.close();
  CHECK(adds_up(data));
  REQUIRE(data.devices.size() == 1);
  CHECK(data.devices[0].busy_ns == 0);
  CHECK(ns(data, {0, IdleCause::host_bound, IdleEdge::both}) == 1000);
}

TEST_CASE("a copy in flight at the window's end, and none behind it") {
  OneWindow w(1000);
  w.run(kKernel.ran(1, -50, 0, 400));
  w.run(kCopy.ran(5, -50, 300, 1500));
  const IdleData data = w.close();
  CHECK(adds_up(data));
  CHECK(ns(data, {0, IdleCause::copy, IdleEdge::end}) == 600);
}

TEST_CASE("executions without length, and two that touch, make no time appear or vanish") {
  OneWindow w(1000);
  w.run(kKernel.ran(1, -50, 0, 100));
  w.run(kKernel.ran(2, -50, 100, 200));
  w.run(kKernel.ran(3, -50, 300, 300));
  w.run(kKernel.ran(4, -50, 500, 1000));
  const IdleData data = w.close();
  CHECK(adds_up(data));
  CHECK(ns(data, {3, IdleCause::queued}) == 100);
  CHECK(ns(data, {4, IdleCause::queued}) == 200);
}

TEST_CASE("the GPU's clock may put a start before its launch call: nothing was queued then") {
  OneWindow w(1000);
  w.run(kKernel.ran(1, -50, 0, 100));
  w.run(kKernel.ran(2, 305, 300, 1000));
  const IdleData data = w.close();
  CHECK(adds_up(data));
  CHECK(ns(data, {2, IdleCause::host_bound}) == 200);
}

}  // namespace
}  // namespace pillion::timeline
