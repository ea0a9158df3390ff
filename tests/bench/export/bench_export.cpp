// SPDX-License-Identifier: Apache-2.0
// A profile of 100,000 samples with distinct stacks of 60 frames: build it, encode it, pack it.
#include <benchmark/benchmark.h>

#include <random>

#include "base/stack_table.h"
#include "export/folded.h"
#include "export/json.h"
#include "export/pprof.h"
#include "profile/builder.h"

namespace pillion {
namespace {

constexpr std::uint32_t kSamples = 100'000;
constexpr std::uint32_t kDepth = 60;

class Resolver : public profile::FrameResolver {
 public:
  std::vector<profile::SourceFrame> resolve(TargetId, const UnwoundFrame& frame) override {
    const std::string number = std::to_string(frame.address);
    return {{"at::native::function_" + number + "(at::Tensor const&, long)",
             "_ZN2at6native" + number + "ERKNS_6TensorEl",
             "aten/src/ATen/native/File" + std::to_string(frame.address % 300) + ".cpp", 17}};
  }
  std::optional<profile::SourceFrame> resolve_python(SessionId, const UnwoundFrame&) override {
    return std::nullopt;
  }
  std::optional<profile::Module> module(TargetId, std::uint32_t file) override {
    const std::uint64_t start = 0x7f0000000000 + file * 0x10000000ull;
    return profile::Module{
        "/usr/lib/lib" + std::to_string(file) + ".so", "ab", start, start + 0x10000000, 0, start};
  }
};

struct Input {
  StackTable stacks{{.stacks_max = kSamples + 1, .frames_max = std::size_t{kSamples + 1} * kDepth}};
  WindowData data;
  profile::BuildInput input;
  Resolver resolver;
  profile::Profile built;

  Input() {
    std::mt19937 random(1);
    for (std::uint32_t i = 0; i < kSamples; ++i) {
      UnwoundStack stack;
      for (std::uint32_t depth = 0; depth < kDepth; ++depth) {
        // Towards the root there are fewer and fewer places to be.
        const std::uint64_t places = depth < 5 ? 4'000 : 1 + 2'000 / depth;
        stack.frames.push_back({1 + depth % 9, 0x1000 + 64 * (random() % places) + depth, true});
      }
      JoinedSample sample;
      sample.tid = 1 + i % 8;
      sample.stream = i % 8;
      sample.name = 1 + i % 200;
      sample.cbid = 307;
      sample.attribution = Attribution::exact;
      sample.stack = stacks.intern(stack);
      sample.count = 1 + random() % 100;
      sample.gpu_ns = random() % 1'000'000;
      sample.queue_ns = random() % 1'000'000;
      data.samples.push_back(sample);
    }
    for (std::uint32_t i = 1; i <= 200; ++i) data.names[i] = "_Z6kernelILi" + std::to_string(i) + "EEvPfS0_i";
    data.devices[0] = {};
    profile::TargetInput target;
    target.id = 1;
    target.comm = "python3";
    target.exe = "/usr/bin/python3";
    target.data = &data;
    target.stacks = &stacks;
    input.targets.push_back(target);
    input.t1_ns = 20'000'000'000;
    input.stacks_max = kSamples + 1;
    built = profile::build(input, resolver);
  }
};

Input& input() {
  static Input instance;
  return instance;
}

void BM_Build(benchmark::State& state) {
  profile::BuildInput& in = input().input;
  in.stacks_max = static_cast<std::size_t>(state.range(0));
  for (auto _ : state) benchmark::DoNotOptimize(profile::build(in, input().resolver));
}
BENCHMARK(BM_Build)->Arg(20'000)->Arg(kSamples + 1)->Unit(benchmark::kMillisecond);

void BM_PprofMessage(benchmark::State& state) {
  std::size_t bytes = 0;
  for (auto _ : state) bytes = exporting::to_pprof_message(input().built).size();
  state.counters["MiB"] = static_cast<double>(bytes) / (1 << 20);
}
BENCHMARK(BM_PprofMessage)->Unit(benchmark::kMillisecond);

void BM_Pprof(benchmark::State& state) {
  std::size_t bytes = 0;
  for (auto _ : state) bytes = exporting::to_pprof(input().built, static_cast<int>(state.range(0)))->size();
  state.counters["MiB"] = static_cast<double>(bytes) / (1 << 20);
}
BENCHMARK(BM_Pprof)->Arg(1)->Arg(3)->Arg(6)->Arg(9)->Unit(benchmark::kMillisecond);

void BM_Json(benchmark::State& state) {
  std::size_t bytes = 0;
  for (auto _ : state) bytes = exporting::to_json(input().built).size();
  state.counters["MiB"] = static_cast<double>(bytes) / (1 << 20);
}
BENCHMARK(BM_Json)->Unit(benchmark::kMillisecond);

void BM_Folded(benchmark::State& state) {
  for (auto _ : state) benchmark::DoNotOptimize(exporting::to_folded(input().built));
}
BENCHMARK(BM_Folded)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace pillion
