// SPDX-License-Identifier: Apache-2.0
#include <dlfcn.h>
#include <pthread.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <mutex>
#include <string>

#include "common/knobs.h"
#include "cuda/call.h"
#include "cuda/clock.h"
#include "cuda/device_nodes.h"
#include "cuda_driver.h"

namespace simgpu {

std::atomic<const simgpu_hooks*> g_hooks{nullptr};
std::atomic<bool> g_ready{false};
std::atomic<std::uint64_t> g_failed_launches{0};

namespace {

// Recursive: InitializeInjection runs inside cuInit and may call cuInit itself. Other threads wait.
std::recursive_mutex g_init_mutex;
std::atomic<bool> g_initializing{false};

// SIMGPU_CUINIT_MS: how long cuInit takes after the injected library has been started. With it the double is
// strict: whoever calls into CUDA before cuInit has returned ends the program.
std::uint64_t init_ms() {
  static const std::uint64_t ms = knob("SIMGPU_CUINIT_MS", 0);
  return ms;
}

void take_time() {
  const std::uint64_t ms = init_ms();
  const timespec wait{static_cast<time_t>(ms / 1000), static_cast<long>(ms % 1000 * 1'000'000)};
  if (ms > 0) clock_nanosleep(CLOCK_MONOTONIC, 0, &wait, nullptr);
}

void refuse_during_init(const char* function) {
  if (!g_initializing.load(std::memory_order_acquire) || init_ms() == 0) return;
  std::fprintf(stderr, "simgpu: %s was called before cuInit had returned\n", function);
  std::abort();
}
bool g_forked = false;  // in a child of a process that had initialised: CUDA does not survive fork

// As the driver does: inside cuInit, on the calling thread; a path that is empty, missing or no library is as
// good as none, and so is a library without the entry point.
void load_injection() {
  const std::string path = knob_text("CUDA_INJECTION64_PATH");
  if (path.empty()) return;
  void* library = dlopen(path.c_str(), RTLD_NOW);
  if (library == nullptr) return;
  using Initialize = int (*)();
  if (auto initialize = reinterpret_cast<Initialize>(dlsym(library, "InitializeInjection"))) initialize();
}

int driver_version() {
  static const int version = static_cast<int>(knob("SIMGPU_DRIVER_VERSION", 13000));
  return version;
}

struct ErrorText {
  CUresult code;
  const char* name;
  const char* text;
};
constexpr ErrorText kErrors[] = {
    {CUDA_SUCCESS, "CUDA_SUCCESS", "no error"},
    {CUDA_ERROR_INVALID_VALUE, "CUDA_ERROR_INVALID_VALUE", "invalid argument"},
    {CUDA_ERROR_OUT_OF_MEMORY, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
    {CUDA_ERROR_NOT_INITIALIZED, "CUDA_ERROR_NOT_INITIALIZED", "initialization error"},
    {CUDA_ERROR_NO_DEVICE, "CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected"},
    {CUDA_ERROR_INVALID_DEVICE, "CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal"},
    {CUDA_ERROR_INVALID_IMAGE, "CUDA_ERROR_INVALID_IMAGE", "device kernel image is invalid"},
    {CUDA_ERROR_INVALID_CONTEXT, "CUDA_ERROR_INVALID_CONTEXT", "invalid device context"},
    {CUDA_ERROR_INVALID_HANDLE, "CUDA_ERROR_INVALID_HANDLE", "invalid resource handle"},
    {CUDA_ERROR_NOT_FOUND, "CUDA_ERROR_NOT_FOUND", "named symbol not found"},
    {CUDA_ERROR_NOT_READY, "CUDA_ERROR_NOT_READY", "device not ready"},
    {CUDA_ERROR_ILLEGAL_ADDRESS, "CUDA_ERROR_ILLEGAL_ADDRESS", "an illegal memory access was encountered"},
    {CUDA_ERROR_LAUNCH_FAILED, "CUDA_ERROR_LAUNCH_FAILED", "unspecified launch failure"},
    {CUDA_ERROR_NOT_SUPPORTED, "CUDA_ERROR_NOT_SUPPORTED", "operation not supported"},
    {CUDA_ERROR_UNKNOWN, "CUDA_ERROR_UNKNOWN", "unknown error"},
};

CUresult error_text(CUresult code, const char** text, const char* ErrorText::*field) {
  for (const ErrorText& error : kErrors) {
    if (error.code != code) continue;
    *text = error.*field;
    return CUDA_SUCCESS;
  }
  *text = nullptr;
  return CUDA_ERROR_INVALID_VALUE;
}

// The newest variant of a name that a program compiled against `cuda_version` may get.
void* find_symbol(const std::string& name, int cuda_version, bool per_thread) {
  if (name == "cuCtxCreate") {
    return dlsym(RTLD_DEFAULT, cuda_version >= 13000 ? "cuCtxCreate_v4" : "cuCtxCreate_v2");
  }
  if (name == "cuGraphInstantiate") return dlsym(RTLD_DEFAULT, "cuGraphInstantiateWithFlags");
  for (const char* suffix : {per_thread ? "_ptsz" : "", "_v2", ""}) {
    if (void* found = dlsym(RTLD_DEFAULT, (name + suffix).c_str())) return found;
  }
  return nullptr;
}

}  // namespace
}  // namespace simgpu

using simgpu::device_count;

extern "C" {

CUresult cuInit(unsigned int flags) {
  static auto& fault = *new simgpu::FaultPoint("cuInit");
  if (flags != 0) return CUDA_ERROR_INVALID_VALUE;
  const std::lock_guard lock(simgpu::g_init_mutex);
  if (simgpu::g_forked) return CUDA_ERROR_NOT_INITIALIZED;
  if (simgpu::g_ready.load(std::memory_order_acquire) || simgpu::g_initializing) return CUDA_SUCCESS;
  if (const auto injected = fault.next()) return *injected;
  if (device_count() == 0) return CUDA_ERROR_NO_DEVICE;
  simgpu::g_initializing = true;
  simgpu::map_devices_for_init();
  simgpu::load_injection();
  simgpu::take_time();
  pthread_atfork(nullptr, nullptr, [] {
    simgpu::g_forked = simgpu::g_ready.load(std::memory_order_relaxed);
    simgpu::g_ready.store(false, std::memory_order_relaxed);
  });
  simgpu::g_initializing = false;
  simgpu::g_ready.store(true, std::memory_order_release);
  simgpu::tell_resource(simgpu::kCuInitFinished, nullptr, nullptr, nullptr);
  return CUDA_SUCCESS;
}

CUresult cuDriverGetVersion(int* version) {
  simgpu::refuse_during_init("cuDriverGetVersion");
  if (version == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *version = simgpu::driver_version();
  return CUDA_SUCCESS;
}

CUresult cuGetErrorName(CUresult error, const char** text) {
  return simgpu::error_text(error, text, &simgpu::ErrorText::name);
}

CUresult cuGetErrorString(CUresult error, const char** text) {
  return simgpu::error_text(error, text, &simgpu::ErrorText::text);
}

CUresult cuGetProcAddress_v2(const char* symbol, void** function, int cuda_version, uint64_t flags,
                             int* status) {
  *function =
      simgpu::find_symbol(symbol, cuda_version, (flags & CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM) != 0);
  if (status != nullptr) *status = *function != nullptr ? 0 : 1;  // CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND
  return *function != nullptr ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}

CUresult cuGetExportTable(const void** table, const CUuuid*) {
  *table = nullptr;
  return CUDA_ERROR_NOT_FOUND;
}

CUresult cuDeviceGetCount(int* count) {
  simgpu::refuse_during_init("cuDeviceGetCount");
  if (!simgpu::g_ready.load(std::memory_order_acquire)) return CUDA_ERROR_NOT_INITIALIZED;
  *count = static_cast<int>(device_count());
  return CUDA_SUCCESS;
}

CUresult cuDeviceGet(CUdevice* device, int ordinal) {
  if (!simgpu::g_ready.load(std::memory_order_acquire)) return CUDA_ERROR_NOT_INITIALIZED;
  if (ordinal < 0 || static_cast<std::uint32_t>(ordinal) >= device_count()) return CUDA_ERROR_INVALID_DEVICE;
  *device = ordinal;
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetName(char* name, int length, CUdevice) {
  std::strncpy(name, "Simulated GPU", static_cast<std::size_t>(length));
  name[length - 1] = '\0';
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetUuid(CUuuid* uuid, CUdevice device) {
  std::memcpy(uuid->bytes, "SIMULATED-GPU-0", 16);
  uuid->bytes[14] = static_cast<char>('0' + device);
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetUuid_v2(CUuuid* uuid, CUdevice device) { return cuDeviceGetUuid(uuid, device); }

CUresult cuDeviceGetAttribute(int* value, int attribute, CUdevice) {
  switch (attribute) {
    case CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
      *value = 1024;
      break;
    case CU_DEVICE_ATTRIBUTE_WARP_SIZE:
      *value = 32;
      break;
    case CU_DEVICE_ATTRIBUTE_CLOCK_RATE:
      *value = 1'980'000;
      break;
    case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT:
      *value = 132;
      break;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR:
      *value = 9;
      break;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR:
      *value = 0;
      break;
    default:
      *value = 0;
  }
  return CUDA_SUCCESS;
}

CUresult cuDeviceTotalMem_v2(size_t* bytes, CUdevice) {
  *bytes = size_t{80} << 30;
  return CUDA_SUCCESS;
}

void simgpu_set_hooks(const simgpu_hooks* hooks) { simgpu::g_hooks.store(hooks, std::memory_order_release); }
uint64_t simgpu_now_ns(void) { return simgpu::now_ns(); }
int simgpu_initialized(void) { return simgpu::g_ready.load(std::memory_order_acquire) ? 1 : 0; }
int simgpu_driver_version(void) { return simgpu::driver_version(); }
}
