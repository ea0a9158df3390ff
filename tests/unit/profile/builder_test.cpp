// SPDX-License-Identifier: Apache-2.0
#include "profile/builder.h"

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <numeric>
#include <random>
#include <set>

#include "example.h"
#include "profile/text.h"

namespace pillion::profile {
namespace {

std::vector<std::string> frames(const Profile& p, const Sample& sample) {
  std::vector<std::string> out;
  for (const std::uint32_t id : sample.locations) {
    for (const Line& line : p.locations.at(id - 1).lines) {
      out.push_back(p.text(p.functions.at(line.function - 1).name));
    }
  }
  return out;
}

std::string label(const Profile& p, const Sample& sample, const std::string& key) {
  for (const Label& l : sample.labels) {
    if (p.text(l.key) == key) return l.unit == 0 ? p.text(l.text) : std::to_string(l.number) + p.text(l.unit);
  }
  return "(none)";
}

const Sample& with_gpu_ns(const Profile& p, std::int64_t gpu_ns) {
  const auto found = std::find_if(p.samples.begin(), p.samples.end(),
                                  [&](const Sample& s) { return s.values[kGpuTimeNs] == gpu_ns; });
  REQUIRE(found != p.samples.end());
  return *found;
}

std::string quality(const Profile& p, const std::string& name) {
  for (const QualityEntry& entry : p.quality) {
    if (entry.name != name) continue;
    if (const auto* n = std::get_if<std::uint64_t>(&entry.value)) return std::to_string(*n);
    if (const auto* text = std::get_if<std::string>(&entry.value)) return *text;
    return std::to_string(std::get<double>(entry.value));
  }
  return "(none)";
}

std::array<std::uint64_t, kValues> sums(const std::vector<JoinedSample>& samples) {
  std::array<std::uint64_t, kValues> out{};
  for (const JoinedSample& s : samples) {
    out[kGpuTimeNs] += s.gpu_ns;
    out[kLaunches] += s.count;
    out[kQueueTimeNs] += s.queue_ns;
    out[kCopiedBytes] += s.bytes;
  }
  return out;
}

template <typename Rows>
std::array<std::uint64_t, kValues> sums_of(const Rows& rows) {
  std::array<std::uint64_t, kValues> out{};
  for (const auto& row : rows) {
    for (std::size_t i = 0; i < kValues; ++i) out[i] += static_cast<std::uint64_t>(row.values[i]);
  }
  return out;
}

using Names = std::vector<std::string>;

TEST_CASE("a stack is kernel, API call, then the application without the capture's own frames") {
  Example e;
  const Profile p = e.make();
  CHECK(frames(p, with_gpu_ns(p, 5000)) == Names{"gemm(float*, float*, int)", "cuLaunchKernel",
                                                 "cudaLaunchKernel", "inlined_step()", "train()", "main"});
  CHECK(frames(p, with_gpu_ns(p, 1001)) ==
        Names{"gemm(float*, float*, int)", "cuLaunchKernel", "plugin.so+0x60", "[stack: fiber]"});
  CHECK(frames(p, with_gpu_ns(p, 300)) == Names{"reduce", "cuLaunchKernel", "[unsampled]"});
  CHECK(frames(p, with_gpu_ns(p, 70)) == Names{"gemm(float*, float*, int)", "[launched before the session]"});
  CHECK(frames(p, with_gpu_ns(p, 9)) == Names{"[memcpy HtoD]", "cuMemcpyHtoDAsync", "[unsampled]"});
  CHECK(frames(p, with_gpu_ns(p, 8)) == Names{"[memset]", "driver call 4321", "[unsampled]"});
}

TEST_CASE("Python frames have lines and no address; what is not whole is said") {
  Example e;
  e.add_python(77);
  e.input.targets[0].quality.python = "3.11.2: in force";
  e.input.targets[0].quality.python_frames = 3;
  e.input.targets[0].quality.python_runs_unplaced = 2;
  const Profile p = e.make();
  const Sample& sample = with_gpu_ns(p, 77);
  CHECK(frames(p, sample) == Names{"gemm(float*, float*, int)", "cuLaunchKernel", "cudaLaunchKernel",
                                   "Model.forward", "Model.forward", "[python frames without their place]",
                                   "[python code 3]", "[python frames missing]", "main"});
  const Location& inner = p.locations.at(sample.locations[3] - 1);
  const Location& outer = p.locations.at(sample.locations[4] - 1);
  CHECK(inner.python);
  CHECK(inner.mapping == 0);
  CHECK(inner.address == 0);
  CHECK(inner.lines[0].line == 12);
  CHECK(outer.lines[0].line == 34);
  CHECK(inner.lines[0].function == outer.lines[0].function);
  CHECK(p.text(p.functions.at(inner.lines[0].function - 1).file) == "/app/model.py");
  CHECK_FALSE(p.locations.at(sample.locations[2] - 1).python);
  CHECK(quality(p, "python") == "3.11.2: in force");
  CHECK(quality(p, "python_frames") == "3");
  CHECK(quality(p, "python_frames_unnamed") == "1");
  const auto total = [&p](const std::string& kind) {
    const auto found = std::find_if(p.anomalies.begin(), p.anomalies.end(),
                                    [&](const Anomaly& anomaly) { return anomaly.kind == kind; });
    return found == p.anomalies.end() ? 0 : found->total;
  };
  CHECK(total("python_unplaced") == 2);
  CHECK(total("python_codes_missing") == 1);
}

TEST_CASE("instructions of one Python line are one frame, also of two sessions of a program") {
  Example e;
  const StackId first = e.stacks.intern(stack_below_capture({UnwoundFrame::python(1, 121), {1, 0x200}}));
  const StackId again = e.stacks.intern(stack_below_capture({UnwoundFrame::python(2, 129), {1, 0x200}}));
  REQUIRE(first != again);
  e.data.samples = {joined_sample(1, 5, first), joined_sample(1, 6, again)};
  const Profile p = e.make();
  CHECK(with_gpu_ns(p, 5).locations == with_gpu_ns(p, 6).locations);
}

TEST_CASE("labels say where it ran, each number with a unit") {
  Example e;
  const Profile p = e.make();
  const Sample& exact = with_gpu_ns(p, 5000);
  CHECK(label(p, exact, "process") == "train");
  CHECK(label(p, exact, "pid") == "77id");
  CHECK(label(p, exact, "thread") == "4242id");
  CHECK(label(p, exact, "thread_name") == "worker-0");
  CHECK(label(p, exact, "device") == "0id");
  CHECK(label(p, exact, "gpu_uuid") == "GPU-11223300-0000-0000-0000-000000000000");
  CHECK(label(p, exact, "stream") == "7id");
  CHECK(label(p, exact, "attribution") == "exact");
  CHECK(label(p, exact, "graph") == "(none)");
  CHECK(label(p, exact, "stack_ending") == "(none)");
  CHECK(label(p, with_gpu_ns(p, 600), "graph") == "yes");
  CHECK(label(p, with_gpu_ns(p, 600), "attribution") == "context");
  CHECK(label(p, with_gpu_ns(p, 1001), "stack_ending") == "fiber");
  CHECK(label(p, with_gpu_ns(p, 70), "thread") == "(none)");
}

TEST_CASE("mapping 1 is the main program, addresses lie in their mapping") {
  Example e;
  const Profile p = e.make();
  CHECK(p.text(p.mappings.at(0).file) == "/app/train");
  CHECK(p.text(p.mappings.at(0).build_id) == "abcdef01");
  std::set<TextId> files;
  for (const Mapping& m : p.mappings) files.insert(m.file);
  CHECK(files.size() == p.mappings.size());
  for (const Location& l : p.locations) {
    if (l.mapping == 0) continue;
    const Mapping& m = p.mappings.at(l.mapping - 1);
    CHECK(l.address >= m.start);
    CHECK(l.address < m.limit);
  }
}

TEST_CASE("kernels are ranked and add up") {
  Example e;
  const Profile p = e.make();
  CHECK(p.text(p.kernels.at(0).name) == "gemm(float*, float*, int)");
  CHECK(p.text(p.kernels.at(0).system_name) == "_Z4gemmPfS_i");
  CHECK(p.kernels.at(0).values[kGpuTimeNs] == 5000 + 1001 + 70 + 600);
  CHECK(sums_of(p.kernels) == sums(e.data.samples));
  CHECK(sums_of(p.samples) == sums(e.data.samples));
}

TEST_CASE("the quality block carries the counters and names what went wrong") {
  Example e;
  e.input.targets[0].quality.counters.executions_dropped_full = 12;
  e.input.targets[0].quality.ended_early = "workload exited";
  const Profile p = e.make();
  CHECK(quality(p, "executions") == "27");
  CHECK(quality(p, "launched_before_session") == "2");
  CHECK(quality(p, "dropped_executions_full") == "12");
  CHECK(quality(p, "cupti_path") == "/opt/pillion/libcupti.so.13");
  CHECK(quality(p, "shim_ns_per_launch").starts_with("100.0"));
  std::set<std::string> kinds;
  for (const Anomaly& a : p.anomalies) kinds.insert(a.kind);
  CHECK(kinds == std::set<std::string>{"executions_dropped", "invalid_stamps_zero", "ended_early"});
}

TEST_CASE("launches without one GPU record are an anomaly") {
  Example e;
  e.data.samples.clear();
  e.data.counters = {};
  e.data.counters.launches = 5;
  const Profile p = e.make();
  REQUIRE(p.anomalies.size() == 1);
  CHECK(p.anomalies[0].kind == "no_gpu_records");
  CHECK(p.anomalies[0].detail.starts_with("libcupti does not fit"));
}

TEST_CASE("launches that are pending may hold the records of others back, and that is said") {
  Example e;
  e.data.samples.clear();
  e.data.counters = {};
  e.data.counters.launches = e.data.counters.pending = 5;
  e.data.counters.pending_earlier = 1;
  Profile p = e.make();
  REQUIRE(p.anomalies.size() == 2);
  CHECK(p.anomalies[0].kind == "no_gpu_records");
  CHECK(p.anomalies[0].detail.starts_with("either a kernel runs that holds them back"));
  CHECK(p.anomalies[0].detail.find("or libcupti does not fit") != std::string::npos);
  CHECK(p.anomalies[1].kind == "launches_pending");
  CHECK(p.anomalies[1].total == 6);
  CHECK(quality(p, "pending_earlier") == "1");
  e.input.targets[0].quality.executions_before = 7;  // so libcupti fits
  p = e.make();
  CHECK(p.anomalies[0].detail.starts_with("a kernel runs that holds them back"));
  CHECK(p.anomalies[0].detail.find("libcupti") == std::string::npos);
}

TEST_CASE("launches are not called pending whose record is known to be lost, or whose process has ended") {
  Example e;
  e.data.counters.pending = 5;
  CHECK(e.make().anomalies.front().kind == "launches_pending");
  e.input.targets[0].quality.executions_lost = 4;
  CHECK(e.make().anomalies.front().total == 1);
  e.input.targets[0].quality.executions_lost = 9;
  const auto pending = [](const Profile& p) {
    return std::any_of(p.anomalies.begin(), p.anomalies.end(),
                       [](const Anomaly& a) { return a.kind == "launches_pending"; });
  };
  CHECK_FALSE(pending(e.make()));
  e.input.targets[0].quality.executions_lost = 0;
  e.input.targets[0].quality.ended_early = "the process has ended";
  CHECK_FALSE(pending(e.make()));
}

TEST_CASE("a window without targets or with a failed one is an empty profile, not a crash") {
  Example e;
  BuildInput none;
  CHECK(build(none, e.resolver).samples.empty());
  e.input.targets[0].data = nullptr;
  CHECK(e.make().samples.empty());
}

TEST_CASE("stacks past the limit merge into [other], the smallest first, conserved") {
  std::mt19937_64 random(3);
  Example e;
  e.data.samples.clear();
  std::vector<std::uint64_t> times;
  for (std::uint64_t i = 0; i < 300; ++i) {
    const StackId id = e.stacks.intern(stack_below_capture({{1, 0x1000 + i}, {1, 0x200}}));
    e.data.samples.push_back(joined_sample(1 + random() % 5, 1 + random() % 100'000, id));
    e.data.samples.back().device = static_cast<std::uint32_t>(i % 2);
    times.push_back(e.data.samples.back().gpu_ns);
  }
  e.input.stacks_max = 100;
  const Profile p = e.make();
  std::set<std::vector<std::uint32_t>> distinct;
  for (const Sample& s : p.samples) distinct.insert(s.locations);
  CHECK(distinct.size() == 100);
  CHECK(sums_of(p.samples) == sums(e.data.samples));
  CHECK(sums_of(p.kernels) == sums(e.data.samples));
  CHECK(quality(p, "stacks_merged") == "201");
  CHECK(quality(p, "stacks_distinct") == "300");
  std::sort(times.begin(), times.end());
  const std::uint64_t small = std::accumulate(times.begin(), times.begin() + 201, std::uint64_t{0});
  std::uint64_t merged = 0;
  for (const Sample& s : p.samples) {
    if (frames(p, s) == Names{"[other]"}) merged += static_cast<std::uint64_t>(s.values[kGpuTimeNs]);
  }
  CHECK(merged == small);
}

TEST_CASE("a process that was armed again has its own numbers of stacks, kernels and Python functions") {
  Example a;
  Example b;
  for (Example* e : {&a, &b}) {
    const std::uint64_t address = e == &a ? 0x100 : 0x200;
    const StackId native = e->stacks.intern(stack_below_capture({{1, address + 0x1000}}));
    const StackId python =
        e->stacks.intern(stack_below_capture({UnwoundFrame::python(1, 120), {1, address}}));
    e->data.samples = {joined_sample(1, 10, native), joined_sample(1, 100, python)};
    e->data.names = {{1, e == &a ? "first_kernel" : "second_kernel"}};
  }
  a.input.targets[0].session = 8;
  b.input.targets[0].session = 9;
  BuildInput both = a.input;
  both.targets.push_back(b.input.targets[0]);
  REQUIRE(both.targets[0].id == both.targets[1].id);
  const Profile p = build(both, a.resolver);
  std::multiset<std::string> leaves, roots, functions;
  for (const Sample& sample : p.samples) {
    const std::vector<std::string> names = frames(p, sample);
    leaves.insert(names.front());
    roots.insert(names.back());
    for (const std::string& name : names) {
      if (name.starts_with("Model.")) functions.insert(name);
    }
  }
  CHECK(leaves ==
        std::multiset<std::string>{"first_kernel", "first_kernel", "second_kernel", "second_kernel"});
  CHECK(roots == std::multiset<std::string>{"main", "train()", "train+0x1100", "train+0x1200"});
  CHECK(functions == std::multiset<std::string>{"Model.backward", "Model.forward"});
}

TEST_CASE("the pod is a label of each sample and a part of each process, where it is known") {
  Example e;
  e.input.targets[0].pod = {"train-0", "ml", "node-\x01", ""};
  const Profile p = e.make();
  for (const Sample& sample : p.samples) {
    CHECK(label(p, sample, "pod") == "train-0");
    CHECK(label(p, sample, "namespace") == "ml");
    CHECK(label(p, sample, "node") == clean_text("node-\x01"));
    CHECK(label(p, sample, "container") == "(none)");
  }
  CHECK(p.processes.at(0).pod.pod == "train-0");
  CHECK(p.processes.at(0).pod.node == clean_text("node-\x01"));
}

TEST_CASE("two sessions share locations and keep their own labels") {
  Example a;
  Example b;
  b.input.targets[0].id = 2;
  b.input.targets[0].session = 2;
  b.input.targets[0].pid = 78;
  b.input.targets[0].comm = "eval";
  BuildInput both = a.input;
  both.targets.push_back(b.input.targets[0]);
  const Profile one = a.make();
  const Profile two = build(both, a.resolver);
  CHECK(two.locations.size() == one.locations.size());
  CHECK(two.samples.size() == 2 * one.samples.size());
  CHECK(two.processes.size() == 2);
  CHECK(quality(two, "launches") == "50");
}

TEST_CASE("hostile names are bounded and valid") {
  Example e;
  e.data.names[1] = std::string(1u << 20, '\xff');
  e.data.names[2] = std::string("_Z") + std::string(5000, 'P') + "i";
  e.data.threads[4242] = std::string("\x1b[31m\xfe", 6);
  const Profile p = e.make();
  for (const std::string& text : p.texts) CHECK(clean_text(text) == text);
}

}  // namespace
}  // namespace pillion::profile
