// SPDX-License-Identifier: Apache-2.0
#include "driver_state.h"

#include <dlfcn.h>

#include <atomic>

#include "proc_maps.h"
#include "system_calls.h"

namespace pillion::shim {
namespace {

constexpr int kDevicesMax = 64;

// A context comes after cuInit. Where none is to be seen by its mappings, cuInit is over after so long at any
// rate.
constexpr std::uint64_t kStartingNs = 10'000'000'000;
std::atomic<std::uint64_t> cuda_started_ns{0};  // 0: it had started before us

using DriverGetVersion = int (*)(int* version);
using DeviceGetCount = int (*)(int* count);
using PrimaryCtxGetState = int (*)(int device, unsigned* flags, int* active);

// A driver linked into the global scope (or a double) comes first, else the one that was dlopen'd privately,
// as the CUDA runtime does.
template <typename Function>
Function driver_symbol(const char* name) {
  void* symbol = dlsym(RTLD_DEFAULT, name);
  if (symbol == nullptr) {
    void* library = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
    if (library != nullptr) symbol = dlsym(library, name);
    // The reference stays: one more, on a library that never leaves.
  }
  return reinterpret_cast<Function>(symbol);
}

bool primary_context_active() {
  const auto device_count = driver_symbol<DeviceGetCount>("cuDeviceGetCount");
  const auto primary_state = driver_symbol<PrimaryCtxGetState>("cuDevicePrimaryCtxGetState");
  if (device_count == nullptr || primary_state == nullptr) return false;
  int count = 0;
  if (device_count(&count) != 0) return false;
  for (int device = 0; device < count && device < kDevicesMax; ++device) {
    unsigned flags = 0;
    int active = 0;
    if (primary_state(device, &flags, &active) == 0 && active != 0) return true;
  }
  return false;
}

}  // namespace

bool may_call_cuda() {
  const std::uint64_t started = cuda_started_ns.load(std::memory_order_relaxed);
  if (started == 0) return true;
  if (!context_is_mapped() && monotonic_ns() - started < kStartingNs) return false;
  cuda_started_ns.store(0, std::memory_order_relaxed);
  return true;
}

// Contexts of cuCtxCreate are visible only from the threads they are current on. The first context maps
// /dev/nvidia-uvm, though, and the end of the last one unmaps it; cuInit alone maps /dev/nvidia0 and
// /dev/nvidiactl (measured on an H200, driver 580.159: tests/gpu/driver_facts.cu).
bool context_is_mapped() {
  ProcMapsReader maps;
  ProcMapping mapping;
  while (maps.next(&mapping)) {
    if (mapping.names_nvidia_uvm()) return true;
  }
  return false;
}

void note_cuda_is_starting() { cuda_started_ns.store(monotonic_ns(), std::memory_order_relaxed); }

std::uint32_t cuda_driver_version() {
  const auto get_version = driver_symbol<DriverGetVersion>("cuDriverGetVersion");
  int version = 0;
  if (get_version == nullptr || get_version(&version) != 0 || version < 0) return 0;
  return static_cast<std::uint32_t>(version);
}

bool cuda_context_exists() { return may_call_cuda() && (context_is_mapped() || primary_context_active()); }

}  // namespace pillion::shim
