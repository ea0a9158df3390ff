// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "profile/builder.h"

// A small process as the tests of the profile and of the exporters know it.
namespace pillion::profile {

// Files by number: 1 the program, 2 the shim, 3 CUPTI, 4 libcuda, 5 libcudart, 6 a plugin.
class FakeResolver : public FrameResolver {
 public:
  std::vector<SourceFrame> resolve(TargetId, const UnwoundFrame& frame) override {
    if (frame.file == 1 && frame.address == 0x100) {
      return {{"inlined_step()", "_Z12inlined_stepv", "step.h", 7},
              {"train()", "_Z5trainv", "train.cpp", 42}};
    }
    if (frame.file == 1 && frame.address == 0x200) return {{"main", "", "train.cpp", 99}};
    if (frame.file == 5) return {{"cudaLaunchKernel", "", "", 0}};
    return {};
  }
  // Codes 1 and 2 are one function whose line is a tenth of the offset, 3 never came. In session 9 all are
  // another.
  std::optional<SourceFrame> resolve_python(SessionId session, const UnwoundFrame& frame) override {
    if (frame.file == 3) return std::nullopt;
    const auto line = static_cast<std::uint32_t>(frame.python_offset() / 10);
    return SourceFrame{session == 9 ? "Model.backward" : "Model.forward", "", "/app/model.py", line};
  }
  std::optional<Module> module(TargetId, std::uint32_t file) override {
    static const std::map<std::uint32_t, const char*> kPaths = {{1, "/app/train"},
                                                                {2, "/opt/pillion/libpillion.so"},
                                                                {3, "/opt/pillion/libcupti.so.13"},
                                                                {4, "/usr/lib/libcuda.so.1"},
                                                                {5, "/usr/lib/libcudart.so.13"},
                                                                {6, "/app/plugin.so"}};
    const auto found = kPaths.find(file);
    if (found == kPaths.end()) return std::nullopt;
    const std::uint64_t start = 0x550000000000 + file * 0x10000000ull;
    return Module{found->second, "abcdef0" + std::to_string(file), start, start + 0x100000, 0, start};
  }
};

inline const std::vector<UnwoundFrame> kCaptureFrames = {
    {2, 0x10, false}, {3, 0x20}, {0, 0xdead}, {4, 0x30}, {4, 0x40}};

inline UnwoundStack stack_below_capture(std::vector<UnwoundFrame> application,
                                        StackEnding ending = StackEnding::rooted) {
  UnwoundStack stack{kCaptureFrames, ending};
  stack.frames.insert(stack.frames.end(), application.begin(), application.end());
  return stack;
}

inline JoinedSample joined_sample(std::uint64_t count, std::uint64_t gpu_ns, StackId stack = 0) {
  JoinedSample s;
  s.tid = 4242;
  s.context = 1;
  s.stream = 7;
  s.name = 1;
  s.cbid = 307;
  s.attribution = stack != 0 ? Attribution::exact : Attribution::unsampled;
  s.stack = stack;
  s.count = count;
  s.gpu_ns = gpu_ns;
  s.queue_ns = 10 * count;
  return s;
}

// One of everything: an exact, a spread, an unsampled and an early kernel, a graph node, a fiber, a copy and
// a set.
struct Example {
  StackTable stacks;
  WindowData data;
  BuildInput input;
  FakeResolver resolver;

  Example() {
    const StackId plain = stacks.intern(stack_below_capture({{5, 0x50}, {1, 0x100}, {1, 0x200}}));
    const StackId fiber = stacks.intern(stack_below_capture({{6, 0x60}}, StackEnding::fiber));
    data.target = 1;
    data.names = {{1, "_Z4gemmPfS_i"}, {2, "reduce"}};
    data.threads = {{4242, "worker-0"}};
    RawDevice device;
    device.uuid = {0x11, 0x22, 0x33};
    device.name = "Simulated GPU";
    device.compute_major = 9;
    device.multiprocessors = 132;
    data.devices = {{0, device}};
    data.samples = {joined_sample(10, 5'000, plain),
                    joined_sample(4, 1'001, fiber),
                    joined_sample(3, 300),
                    joined_sample(2, 70),
                    joined_sample(6, 600, plain),
                    joined_sample(1, 9),
                    joined_sample(1, 8)};
    data.samples[2].name = 2;
    data.samples[3].attribution = Attribution::before_session;
    data.samples[3].tid = data.samples[3].cbid = 0;
    data.samples[4].attribution = Attribution::context;
    data.samples[4].graph = true;
    data.samples[4].cbid = 514;
    data.samples[5].kind = ExecutionKind::copy;
    data.samples[5].name = 0;
    data.samples[5].copy_kind = 1;
    data.samples[5].cbid = 277;
    data.samples[5].bytes = 4096;
    data.samples[6].kind = ExecutionKind::set;
    data.samples[6].name = 0;
    data.samples[6].cbid = 4321;
    data.samples[6].bytes = 64;
    data.counters.launches = 25;
    data.counters.executions = 27;
    data.counters.joined = 25;
    data.counters.launched_before = 2;
    data.counters.invalid_zero = 1;
    input.start_wall_ns = 1'700'000'000'000'000'000;
    input.t0_ns = 5'000'000'000;
    input.t1_ns = 25'000'000'000;
    TargetInput target;
    target.id = 1;
    target.pid = 77;
    target.comm = "train";
    target.exe = "/app/train";
    target.data = &data;
    target.stacks = &stacks;
    target.quality.cupti_version = 130001;
    target.quality.driver_version = 13000;
    target.quality.cupti_path = "/opt/pillion/libcupti.so.13";
    target.quality.counters.handler_ns = 2500;
    target.quality.counters.handler_calls = 25;
    target.quality.counters.launching_threads = 1;
    input.targets.push_back(std::move(target));
  }
  // One more sample, whose stack is of Python: two lines of one function, a frame without a code object, and
  // what is not whole.
  void add_python(std::uint64_t gpu_ns) {
    const StackId id = stacks.intern(stack_below_capture({{5, 0x50},
                                                          UnwoundFrame::python(1, 120),
                                                          UnwoundFrame::python(2, 345),
                                                          UnwoundFrame::mark(FrameKind::python_unplaced),
                                                          UnwoundFrame::python(3, 8),
                                                          UnwoundFrame::mark(FrameKind::python_cut),
                                                          {1, 0x200}}));
    data.samples.push_back(joined_sample(1, gpu_ns, id));
  }
  [[nodiscard]] Profile make() { return build(input, resolver); }
};

}  // namespace pillion::profile
