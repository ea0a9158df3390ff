// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <string>
#include <vector>

#include "idle_example.h"

namespace pillion::profile {
namespace {

using Names = std::vector<std::string>;

Names frames(const Profile& p, const Sample& s) {
  Names names;
  for (const std::uint32_t id : s.locations) {
    for (const Line& line : p.locations[id - 1].lines)
      names.push_back(p.text(p.functions[line.function - 1].name));
  }
  return names;
}

std::string label(const Profile& p, const Sample& s, const std::string& key) {
  for (const Label& one : s.labels) {
    if (p.text(one.key) == key) return one.unit == 0 ? p.text(one.text) : std::to_string(one.number);
  }
  return "";
}

const Sample& with_time(const Profile& p, std::int64_t ns) {
  const auto found = std::find_if(p.samples.begin(), p.samples.end(),
                                  [&](const Sample& s) { return s.values[kIdleTimeNs] == ns; });
  REQUIRE(found != p.samples.end());
  return *found;
}

TEST_CASE("the leaf says why, the rest which launch ended it") {
  IdleExample e;
  const Profile p = e.make_idle();
  CHECK(std::string(p.type) == "idle");
  REQUIRE(p.value_types.size() == 2);
  CHECK(std::string(p.value_types[0].type) == "gpu_idle");
  const Sample& host = with_time(p, 9'000);
  CHECK(frames(p, host) ==
        Names{"idle: host-bound", "cuLaunchKernel", "cudaLaunchKernel", "Model.forward", "main"});
  CHECK(label(p, host, "cause") == "host-bound");
  CHECK(label(p, host, "edge").empty());
  CHECK(label(p, host, "process") == "train");
  CHECK(label(p, host, "device") == "0");
  CHECK(label(p, host, "thread_name") == "worker-0");
  CHECK(host.values[kIdleGaps] == 2);
  CHECK(frames(p, with_time(p, 400)).front() == "idle: queued");
  CHECK(frames(p, with_time(p, 300)).front() == "idle: synchronising");
  CHECK(frames(p, with_time(p, 70)).front() == "idle: copy");
  CHECK(&host == &p.samples.front());
}

TEST_CASE("what the window cuts is a row of its own, also without labels") {
  IdleExample e;
  const Profile p = e.make_idle();
  CHECK(frames(p, with_time(p, 5)) == Names{"idle: host-bound", "[gap cut by the window's beginning]",
                                            "cuLaunchKernel", "cudaLaunchKernel", "Model.forward", "main"});
  CHECK(label(p, with_time(p, 5), "edge") == "begin");
  CHECK(frames(p, with_time(p, 11)) ==
        Names{"idle: unknown", "[gap cut by the window's end]", "[nothing started before the window's end]"});
  CHECK(label(p, with_time(p, 11), "edge") == "end");
  CHECK(label(p, with_time(p, 11), "thread").empty());
}

TEST_CASE("a launch whose record had not come is named, and so is that") {
  IdleExample e;
  IdleSample pending = e.idle.samples.at(0);
  pending.ended = false;
  pending.pending = true;
  pending.cause = IdleCause::unknown;
  pending.edge = IdleEdge::both;
  pending.ns = 12'345;
  e.idle.samples.push_back(pending);
  const Profile p = e.make_idle();
  const Sample& row = with_time(p, 12'345);
  CHECK(frames(p, row) == Names{"idle: unknown", "[gap longer than the window]",
                                "[launched, its GPU record had not come: it may have run]", "cuLaunchKernel",
                                "cudaLaunchKernel", "Model.forward", "main"});
  CHECK(label(p, row, "thread_name") == "worker-0");
  CHECK(label(p, row, "stream").empty());
}

TEST_CASE("busy share, concurrency and causes of each device") {
  IdleExample e;
  const Profile p = e.make_idle();
  REQUIRE(p.device_idle.size() == 1);
  const DeviceIdle& device = p.device_idle[0];
  CHECK(device.uuid == "GPU-11223300-0000-0000-0000-000000000000");
  REQUIRE(device.users.size() == 1);
  CHECK(device.users[0].pid == 77);
  CHECK(device.busy_ns + device.idle_ns == device.window_ns);
  CHECK(device.busy_share == 10'214.0 / 20'000);
  CHECK(device.kernel_concurrency == 1.5);
  CHECK(device.by_cause[static_cast<std::size_t>(IdleCause::synchronising)] == 300);
  std::int64_t rows = 0;
  for (const Sample& sample : p.samples) rows += sample.values[kIdleTimeNs];
  CHECK(rows == static_cast<std::int64_t>(device.idle_ns));
}

TEST_CASE("two processes on one device are both its users; a process armed again is one") {
  IdleExample e;
  TargetInput again = e.input.targets.at(0);
  again.session = 2;
  TargetInput other = e.input.targets.at(0);
  other.session = 3;
  other.id = 2;
  other.pid = 78;
  e.input.targets.push_back(again);
  e.input.targets.push_back(other);
  e.idle.devices.at(0).members = {{1, 0}, {2, 0}, {3, 4}};
  const Profile p = e.make_idle();
  REQUIRE(p.device_idle.at(0).users.size() == 2);
  CHECK(p.device_idle[0].users[1].pid == 78);
  CHECK(p.device_idle[0].users[1].device == 4);
}

TEST_CASE("more stacks than are shown: merged by cause, to the last nanosecond") {
  IdleExample e;
  e.input.stacks_max = 3;
  const Profile p = e.make_idle();
  std::int64_t rows = 0, merged_sync = 0;
  for (const Sample& sample : p.samples) {
    rows += sample.values[kIdleTimeNs];
    if (frames(p, sample) == Names{"[other]"} && label(p, sample, "cause") == "synchronising")
      merged_sync += sample.values[kIdleTimeNs];
  }
  CHECK(rows == 9'786);
  CHECK(merged_sync == 300);
}

TEST_CASE("what was lost is in the quality block and among the anomalies") {
  IdleExample e;
  const Profile p = e.make_idle();
  const auto found = std::find_if(p.anomalies.begin(), p.anomalies.end(),
                                  [](const Anomaly& a) { return a.kind == "idle_executions_late"; });
  REQUIRE(found != p.anomalies.end());
  CHECK(found->total == 3);
  const auto entry = std::find_if(p.quality.begin(), p.quality.end(),
                                  [](const QualityEntry& q) { return q.name == "idle_executions_late"; });
  REQUIRE(entry != p.quality.end());
  const Profile gpu = e.make();
  CHECK(std::none_of(gpu.quality.begin(), gpu.quality.end(),
                     [](const QualityEntry& q) { return q.name.starts_with("idle_"); }));
}

TEST_CASE("rows of a session that is not there, and no rows at all, are no crash") {
  IdleExample e;
  e.idle.samples.at(0).session = 99;
  CHECK(e.make_idle().samples.size() == 6);
  e.idle = {};
  CHECK(e.make_idle().samples.empty());
  CHECK(build_idle({}, {}, e.resolver).device_idle.empty());
}

}  // namespace
}  // namespace pillion::profile
