// SPDX-License-Identifier: Apache-2.0
#include <dlfcn.h>

#include <csignal>
#include <cstdio>
#include <filesystem>

#include "workload.h"

// Launches from its own code; after --delay seconds, or at SIGUSR1, it loads a library and launches from
// there, too.
namespace {

using Launch = CUresult (*)(CUfunction, CUstream, unsigned long long);
std::atomic<bool> g_load_now{false};

Launch load_plugin(const std::string& path) {
  void* library = dlopen(path.c_str(), RTLD_NOW);
  if (library == nullptr) {
    std::fprintf(stderr, "dlopen_late: %s\n", dlerror());
    std::exit(1);
  }
  return reinterpret_cast<Launch>(dlsym(library, "late_plugin_launch"));
}

}  // namespace

int main(int argc, char** argv) {
  const workload::Options options = workload::parse_options(argc, argv);
  const std::string plugin =
      !options.plugin.empty()
          ? options.plugin
          : std::filesystem::read_symlink("/proc/self/exe").parent_path().string() + "/liblate_plugin.so";
  workload::Device device;
  std::signal(SIGUSR1, [](int) { g_load_now = true; });
  CUstream stream = nullptr;
  CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  const std::uint64_t begin = workload::now_ns();
  workload::Pacer pacer(options.rate, options.seconds);
  Launch launch_late = nullptr;
  std::uint64_t own = 0, late = 0;
  while ((options.iterations == 0 || pacer.passed() < options.iterations) && pacer.next()) {
    if (launch_late == nullptr &&
        (g_load_now || (options.delay > 0 && workload::seconds_since(begin) >= options.delay))) {
      launch_late = load_plugin(plugin);
    }
    if (launch_late != nullptr && pacer.passed() % 2 == 0) {
      CHECK(launch_late(device.spin(), stream, 1500));
      ++late;
    } else {
      CHECK(device.launch(own++, stream, options.spin_ns));
    }
  }
  const double elapsed = workload::seconds_since(begin);
  CHECK(cuCtxSynchronize());
  workload::print_truth("dlopen_late", own + late, elapsed, device.counts(),
                        ",\"own\":" + std::to_string(own) + ",\"late\":" + std::to_string(late));
}
