// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "workload.h"

// Does what a line on stdin says, one step after the other, and answers "done". It has contexts on the first
// --nodes devices (1 unless said) and makes streams as they are named. Steps are separated by ';':
//   spin SITE DEVICE STREAM NS   launches a kernel of so long, from the function site<SITE>, 0 to 7
//   copy DEVICE STREAM BYTES     to the device
//   peer FROM TO STREAM BYTES    from device to device, on FROM's stream
//   set DEVICE STREAM BYTES
//   after DEVICE STREAM DEVICE STREAM   what comes on the first waits for what is on the second by now
//   sync DEVICE STREAM
//   sleep MS
// Says "ready" first; ends at the end of its input or at a signal.
namespace {

constexpr std::size_t kBytesMax = std::size_t{256} << 20;

struct Gpu {
  CUcontext context = nullptr;
  CUfunction spin = nullptr;
  CUdeviceptr memory = 0;
  std::map<int, CUstream> streams;

  explicit Gpu(int ordinal) {
    CUdevice device = 0;
    CUmodule module = nullptr;
    CHECK(cuDeviceGet(&device, ordinal));
    CHECK(cuDevicePrimaryCtxRetain(&context, device));
    CHECK(cuCtxSetCurrent(context));
    CHECK(cuModuleLoadData(&module, workload::kPtx));
    CHECK(cuModuleGetFunction(&spin, module, "_Z4spiny"));
    CHECK(cuMemAlloc_v2(&memory, kBytesMax));
  }

  CUstream stream(int number) {
    CUstream& made = streams[number];
    if (made == nullptr) CHECK(cuStreamCreate(&made, CU_STREAM_NON_BLOCKING));
    return made;
  }
};

std::uint64_t g_launches = 0;

// A place of its own in the program for each number, so that stacks tell launches apart; and of its own
// depth, so that a launch without a snapshot is not taken for one of another place.
template <int Site>
[[gnu::noinline]] void site(Gpu& gpu, CUstream stream, std::uint64_t ns) {
  [[maybe_unused]] volatile char depth[64 * (Site + 1)];
  depth[0] = 0;
  void* parameters[] = {&ns};
  CHECK(cuLaunchKernel(gpu.spin, 1, 1, 1, 1, 1, 1, 0, stream, parameters, nullptr));
  g_launches += 1;
}
constexpr std::array kSites = {site<0>, site<1>, site<2>, site<3>, site<4>, site<5>, site<6>, site<7>};

[[gnu::noinline]] void copy_up(Gpu& gpu, CUstream stream, const void* host, std::uint64_t bytes) {
  CHECK(cuMemcpyHtoDAsync_v2(gpu.memory, host, bytes, stream));
}

[[gnu::noinline]] void set_memory(Gpu& gpu, CUstream stream, std::uint64_t bytes) {
  CHECK(cuMemsetD8Async(gpu.memory, 1, bytes, stream));
}

[[gnu::noinline]] void wait_for(CUstream stream) { CHECK(cuStreamSynchronize(stream)); }

class Script {
 public:
  explicit Script(int gpus) {
    CHECK(cuInit(0));
    for (int i = 0; i < gpus; ++i) gpus_.emplace_back(i);
    CHECK(cuMemHostAlloc(&host_, kBytesMax, 0));
  }

  void run(const std::string& line) {
    std::istringstream steps(line);
    for (std::string step; std::getline(steps, step, ';');) run_step(step);
  }

  void finish() {
    for (Gpu& gpu : gpus_) {
      CHECK(cuCtxSetCurrent(gpu.context));
      CHECK(cuCtxSynchronize());
    }
  }

 private:
  struct Place {
    Gpu& gpu;
    CUstream stream;
  };

  template <typename Number>
  static Number read(std::istringstream& words) {
    Number number{};
    if (words >> number) return number;
    std::fprintf(stderr, "scripted: a number is missing in '%s'\n", words.str().c_str());
    std::exit(2);
  }

  Place place(std::istringstream& words) {
    Gpu& gpu = gpus_.at(read<std::size_t>(words));
    CHECK(cuCtxSetCurrent(gpu.context));
    return {gpu, gpu.stream(read<int>(words))};
  }

  void run_step(const std::string& step) {
    std::istringstream words(step);
    std::string what;
    words >> what;
    if (what == "spin") {
      const auto number = read<std::size_t>(words);
      const Place at = place(words);
      kSites.at(number)(at.gpu, at.stream, read<std::uint64_t>(words));
    } else if (what == "copy") {
      const Place at = place(words);
      copy_up(at.gpu, at.stream, host_, read<std::uint64_t>(words));
    } else if (what == "peer") {
      peer(words);
    } else if (what == "set") {
      const Place at = place(words);
      set_memory(at.gpu, at.stream, read<std::uint64_t>(words));
    } else if (what == "after") {
      after(words);
    } else if (what == "sync") {
      wait_for(place(words).stream);
    } else if (what == "sleep") {
      workload::sleep_seconds(read<double>(words) / 1000);
    } else if (!what.empty()) {
      std::fprintf(stderr, "scripted: no step '%s'\n", what.c_str());
      std::exit(2);
    }
  }

  void peer(std::istringstream& words) {
    const auto from = read<std::size_t>(words);
    const auto to = read<std::size_t>(words);
    CHECK(cuCtxSetCurrent(gpus_.at(from).context));
    const CUstream stream = gpus_.at(from).stream(read<int>(words));
    CHECK(cuMemcpyPeerAsync(gpus_.at(to).memory, gpus_.at(to).context, gpus_.at(from).memory,
                            gpus_.at(from).context, read<std::uint64_t>(words), stream));
  }

  void after(std::istringstream& words) {
    const Place later = place(words);
    const Place earlier = place(words);  // its context is current now
    CUevent event = nullptr;
    CHECK(cuEventCreate(&event, 0));
    CHECK(cuEventRecord(event, earlier.stream));
    CHECK(cuCtxSetCurrent(later.gpu.context));
    CHECK(cuStreamWaitEvent(later.stream, event, 0));
    CHECK(cuEventDestroy_v2(event));
  }

  std::vector<Gpu> gpus_;
  void* host_ = nullptr;
};

}  // namespace

int main(int argc, char** argv) {
  workload::Options options;
  options.nodes = 1;
  if (argc > 1) options = workload::parse_options(argc, argv);
  workload::install_stop_signals();
  Script script(options.nodes);
  const std::uint64_t begin = workload::now_ns();
  std::puts("ready");
  std::fflush(stdout);
  char line[4096];
  while (!workload::stop_requested() && std::fgets(line, sizeof line, stdin) != nullptr) {
    script.run(std::string(line).substr(0, std::string(line).find('\n')));
    std::puts("done");
    std::fflush(stdout);
  }
  const double elapsed = workload::seconds_since(begin);
  script.finish();
  workload::print_truth("scripted", g_launches, elapsed, {{"_Z4spiny", g_launches}});
}
