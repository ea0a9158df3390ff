// SPDX-License-Identifier: Apache-2.0
#include "cupti/driver.h"

#include <dlfcn.h>

#include <atomic>

namespace simgpu {
namespace {

template <class Function>
bool find(void* library, const char* name, Function* function) {
  *function = reinterpret_cast<Function>(dlsym(library, name));
  return *function != nullptr;
}

const Driver* look_up() {
  void* library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
  if (library == nullptr) return nullptr;
  auto* found = new Driver{};
  const bool all = find(library, "simgpu_set_hooks", &found->set_hooks) &&
                   find(library, "simgpu_now_ns", &found->now_ns) &&
                   find(library, "simgpu_initialized", &found->initialized) &&
                   find(library, "simgpu_driver_version", &found->driver_version) &&
                   find(library, "simgpu_graph_execs_ever", &found->graph_execs_ever) &&
                   find(library, "simgpu_device_count", &found->device_count) &&
                   find(library, "simgpu_context_info", &found->context_info) &&
                   find(library, "simgpu_stream_id", &found->stream_id) &&
                   find(library, "simgpu_graph_id", &found->graph_id) &&
                   find(library, "simgpu_graph_exec_id", &found->graph_exec_id) &&
                   find(library, "simgpu_graph_node_id", &found->graph_node_id) &&
                   find(library, "simgpu_each_context", &found->each_context) &&
                   find(library, "simgpu_each_stream", &found->each_stream) &&
                   find(library, "simgpu_module_of", &found->module_of) &&
                   find(library, "simgpu_cubin_crc", &found->cubin_crc);
  if (all) return found;
  delete found;
  return nullptr;
}

std::atomic<const Driver*> g_driver{nullptr};

}  // namespace

const Driver* driver() {
  const Driver* known = g_driver.load(std::memory_order_acquire);
  if (known != nullptr) return known;
  known = look_up();
  g_driver.store(
      known, std::memory_order_release);  // two threads may both look: the same pointers, a few bytes lost
  return known;
}

}  // namespace simgpu
