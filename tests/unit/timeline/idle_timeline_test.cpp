// SPDX-License-Identifier: Apache-2.0
// Windows, devices and sessions; and that time is conserved whatever the executions look like.
#include <catch2/catch_test_macros.hpp>

#include <algorithm>
#include <random>
#include <vector>

#include "timeline_fixture.h"

namespace pillion::timeline {
namespace {

const Script kKernel;

RawDevice device_with(std::uint32_t number, std::uint8_t uuid) {
  RawDevice device;
  device.device = number;
  device.uuid.fill(uuid);
  return device;
}

TEST_CASE("overlapping windows, which begin and end in gaps and in kernels, each have their own") {
  IdleTimeline timeline;
  timeline.add_session(kSession, 42);
  const auto open = [&](WindowId id, std::uint64_t from, std::uint64_t to) {
    REQUIRE(timeline.open_window(id, {}, kT0 + from, kT0 + to));
    timeline.enter_window(id, kSession);
  };
  open(1, 0, 1000);
  open(2, 150, 350);  // from within a gap into a kernel
  open(3, 350, 550);  // from within that kernel into the next gap
  timeline.on_execution(kSession, kKernel.ran(1, -10, 0, 100));
  timeline.on_execution(kSession, kKernel.ran(2, 200, 300, 400));
  timeline.on_execution(kSession, kKernel.ran(3, 450, 800, 1100));

  const IdleData second = *timeline.close_window(2, kT0 + 350, {});
  CHECK(adds_up(second));
  CHECK(second.devices.at(0).busy_ns == 50);
  CHECK(ns(second, {2, IdleCause::host_bound, IdleEdge::begin}) == 50);
  CHECK(ns(second, {2, IdleCause::queued, IdleEdge::begin}) == 100);

  const IdleData third = *timeline.close_window(3, kT0 + 550, {});
  CHECK(adds_up(third));
  CHECK(third.devices.at(0).busy_ns == 50);
  CHECK(ns(third, {3, IdleCause::host_bound, IdleEdge::end}) == 50);
  CHECK(ns(third, {3, IdleCause::queued, IdleEdge::end}) == 100);

  const IdleData first = *timeline.close_window(1, kT0 + 1000, {});
  CHECK(adds_up(first));
  CHECK(first.devices.at(0).busy_ns == 100 + 100 + 200);
  CHECK(ns(first, {2, IdleCause::host_bound}) == 100);
  CHECK(ns(first, {2, IdleCause::queued}) == 100);
  CHECK(ns(first, {3, IdleCause::host_bound}) == 50);
  CHECK(ns(first, {3, IdleCause::queued}) == 350);
  CHECK(timeline.intervals() == 0);
}

TEST_CASE("each device has its own time, also one that only has a context") {
  OneWindow w(1000);
  w.timeline.on_context(kSession, 2);
  w.timeline.on_device(kSession, device_with(0, 1));
  w.timeline.on_device(kSession, device_with(1, 2));
  w.timeline.on_device(kSession, device_with(2, 3));
  w.timeline.on_device(kSession, device_with(3, 4));  // in the machine, not used
  const Script second{.device = 1};
  w.run(kKernel.ran(1, -10, 0, 600));
  w.run(second.ran(2, 100, 200, 1000));
  const IdleData data = w.close();
  CHECK(adds_up(data));
  REQUIRE(data.devices.size() == 3);
  CHECK(data.devices[0].busy_ns == 600);
  CHECK(data.devices[1].busy_ns == 800);
  CHECK(data.devices[2].busy_ns == 0);
  CHECK(data.devices[2].members.at(0).device == 2);
  CHECK(ns(data, {0, IdleCause::host_bound, IdleEdge::end}, 0) == 400);
  CHECK(ns(data, {2, IdleCause::host_bound, IdleEdge::begin}, 1) == 100);
  CHECK(ns(data, {0, IdleCause::host_bound, IdleEdge::both}, 2) == 1000);
}

TEST_CASE("a copy between devices is in flight on both") {
  OneWindow w(1000);
  const Script copy{.kind = ExecutionKind::copy};
  Ran peer = copy.ran(5, -10, 0, 300);
  peer.other_device = 1;
  w.run(peer);
  const Script second{.device = 1};
  w.run(kKernel.ran(1, -10, 300, 1000));
  w.run(second.ran(2, -10, 400, 1000));
  const IdleData data = w.close();
  CHECK(adds_up(data));
  CHECK(ns(data, {1, IdleCause::copy, IdleEdge::begin}, 0) == 300);
  CHECK(ns(data, {2, IdleCause::copy, IdleEdge::begin}, 1) == 300);
  CHECK(ns(data, {2, IdleCause::queued, IdleEdge::begin}, 1) == 100);
}

TEST_CASE("two processes on one device: it is busy when either works; a gap is that one's which ends it") {
  OneWindow w(1000);
  w.timeline.add_session(2, 43);
  w.timeline.enter_window(1, 2);
  w.timeline.on_device(kSession, device_with(0, 9));
  w.timeline.on_device(2, device_with(3, 9));  // the same device under another number
  const Script other{.device = 3};
  w.run(kKernel.ran(1, -10, 0, 300));
  w.timeline.on_execution(2, other.ran(4, 100, 200, 500));
  w.run(kKernel.ran(2, 550, 600, 700));
  w.timeline.on_execution(2, other.ran(5, 0, 900, 1000));
  const IdleData data = w.close();
  CHECK(adds_up(data));
  REQUIRE(data.devices.size() == 1);
  CHECK(data.devices[0].members.size() == 2);
  CHECK(data.devices[0].busy_ns == 500 + 100 + 100);
  CHECK(ns(data, {2, IdleCause::host_bound}) == 50);
  CHECK(ns(data, {2, IdleCause::queued}) == 50);
  CHECK(ns(data, {5, IdleCause::queued}, 3) == 200);
  const auto row = std::find_if(data.samples.begin(), data.samples.end(),
                                [](const IdleSample& s) { return s.launch.stack == 5; });
  REQUIRE(row != data.samples.end());
  CHECK(row->session == 2);
}

TEST_CASE("a window over one process or one device leaves the others out") {
  IdleTimeline timeline;
  timeline.add_session(1, 42);
  timeline.add_session(2, 43);
  REQUIRE(timeline.open_window(1, {}, kT0, kT0 + 1000));
  REQUIRE(timeline.open_window(2, 1, kT0, kT0 + 1000));
  timeline.enter_window(1, 1);
  timeline.enter_window(2, 1);
  timeline.enter_window(2, 2);
  timeline.on_execution(1, kKernel.ran(1, -10, 0, 1000));
  timeline.on_execution(2, kKernel.ran(2, -10, 0, 1000));
  timeline.on_execution(2, Script{.device = 1}.ran(3, -10, 0, 250));
  const IdleData process = *timeline.close_window(1, kT0 + 1000, {});
  CHECK(adds_up(process));
  REQUIRE(process.devices.size() == 1);
  CHECK(process.devices[0].busy_ns == 1000);
  const IdleData device = *timeline.close_window(2, kT0 + 1000, {});
  CHECK(adds_up(device));
  REQUIRE(device.devices.size() == 1);
  CHECK(device.devices[0].busy_ns == 250);
}

TEST_CASE("a device whose process has no uuid for it is the same one over sessions of that process") {
  OneWindow w(1000);
  w.timeline.add_session(2, 42);
  w.timeline.enter_window(1, 2);
  w.run(kKernel.ran(1, -10, 0, 300));
  w.timeline.on_execution(2, kKernel.ran(2, 290, 300, 1000));
  const IdleData data = w.close();
  CHECK(data.devices.size() == 1);
  CHECK(adds_up(data));
  CHECK(data.samples.empty());
}

TEST_CASE("executions that still wait for their stack count in the window that closes, and once") {
  IdleTimeline timeline;
  timeline.add_session(kSession, 42);
  for (const WindowId id : {1, 2}) {
    REQUIRE(timeline.open_window(id, {}, kT0, kT0 + 1000));
    timeline.enter_window(id, kSession);
  }
  const Ran waiting = kKernel.ran(1, -10, 400, 1000);
  IdleTimeline::Open open;
  open.executions.emplace_back(kSession, waiting);
  const IdleData early = *timeline.close_window(1, kT0 + 1000, open);
  CHECK(adds_up(early));
  CHECK(early.devices.at(0).busy_ns == 600);
  timeline.on_execution(kSession, waiting);
  const IdleData later = *timeline.close_window(2, kT0 + 1000, {});
  CHECK(adds_up(later));
  CHECK(later.devices.at(0).busy_ns == 600);
}

TEST_CASE("windows are refused by id and order, and unknown ones are errors") {
  OneWindow w(1000);
  CHECK_FALSE(w.timeline.open_window(1, {}, kT0, kT0 + 1));
  CHECK_FALSE(w.timeline.open_window(2, {}, kT0, kT0));
  CHECK_FALSE(w.timeline.close_window(3, kT0 + 1, {}));
}

TEST_CASE("a window that ends early ends there") {
  OneWindow w(1000);
  w.run(kKernel.ran(1, -10, 0, 700));
  w.timeline.end_window(1, kT0 + 400);
  const IdleData data = w.close();
  CHECK(adds_up(data));
  CHECK(data.devices.at(0).window_ns == 400);
  CHECK(data.devices.at(0).busy_ns == 400);
}

// Random scripts against the plainest possible count: one nanosecond after the other.
TEST_CASE("busy and causes of random timelines are those of a count nanosecond by nanosecond") {
  std::mt19937 random(20'261'130);
  const auto pick = [&](int low, int high) { return std::uniform_int_distribution<int>(low, high)(random); };
  constexpr int kLength = 600;
  for (int round = 0; round < 300; ++round) {
    CAPTURE(round);
    OneWindow w(kLength);
    w.timeline.on_context(kSession, 0);
    std::vector<int> works(kLength), kernels(kLength), copies(kLength);
    const int count = pick(0, 14);
    for (int i = 0; i < count; ++i) {
      const Script script{.kind = static_cast<ExecutionKind>(pick(0, 2))};
      const int start = pick(-50, kLength + 20);
      const int end = start + pick(0, 80);
      w.run(script.ran(static_cast<StackId>(i + 1), start - pick(0, 200), start, end));
      for (int at = std::max(start, 0); at < std::min(end, kLength); ++at) {
        ++(script.kind == ExecutionKind::copy ? copies : works)[static_cast<std::size_t>(at)];
        if (script.kind == ExecutionKind::kernel) ++kernels[static_cast<std::size_t>(at)];
      }
    }
    const IdleData data = w.close();
    REQUIRE(adds_up(data));
    const DeviceUse& use = data.devices.at(0);
    std::uint64_t busy = 0, copying = 0, kernel = 0, kernel_busy = 0;
    for (std::size_t at = 0; at < kLength; ++at) {
      busy += works[at] > 0 ? 1 : 0;
      copying += works[at] == 0 && copies[at] > 0 ? 1 : 0;
      kernel += static_cast<std::uint64_t>(kernels[at]);
      kernel_busy += kernels[at] > 0 ? 1 : 0;
    }
    CHECK(use.busy_ns == busy);
    CHECK(use.kernel_ns == kernel);
    CHECK(use.kernel_busy_ns == kernel_busy);
    CHECK(use.idle_ns[static_cast<std::size_t>(IdleCause::copy)] == copying);
  }
}

}  // namespace
}  // namespace pillion::timeline
