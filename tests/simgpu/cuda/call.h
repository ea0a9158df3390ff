// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>

#include "common/knobs.h"
#include "cuda/context.h"
#include "simgpu_interface.h"

// Every driver call that CUPTI can see goes through traced(): readiness, ENTER, fault table, the work, EXIT.
namespace simgpu {

extern std::atomic<const simgpu_hooks*> g_hooks;
extern std::atomic<bool> g_ready;  // cuInit has returned and this is not a forked child
extern std::atomic<std::uint64_t> g_failed_launches;

// RESOURCE callback ids of cupti_callbacks.h.
enum : std::uint32_t {
  kContextCreated = 1,
  kContextDestroyStarting = 2,
  kStreamCreated = 3,
  kStreamDestroyStarting = 4,
  kCuInitFinished = 5,
  kModuleLoaded = 6,
  kModuleUnloadStarting = 7,
  kGraphCreated = 9,
  kGraphDestroyStarting = 10,
  kGraphNodeCreated = 13,
  kGraphExecCreated = 18,
  kGraphExecDestroyStarting = 19,
  kGraphNodeCloned = 20
};

inline void tell_op(const simgpu_call& call, const simgpu_op& op) {
  if (const simgpu_hooks* hooks = g_hooks.load(std::memory_order_acquire)) hooks->op(&call, &op);
}

inline void tell_resource(std::uint32_t cbid, CUcontext context, CUstream stream, const void* descriptor) {
  if (const simgpu_hooks* hooks = g_hooks.load(std::memory_order_acquire)) {
    hooks->resource(cbid, context, stream, descriptor);
  }
}

// A call has waited for the GPU: counted in the truth, by its name.
void note_wait(const char* name, std::uint64_t start_ns, std::uint64_t end_ns);

// What distinguishes one traced call from another.
struct CallSite {
  std::uint32_t cbid;
  const char* name;
  CUfunction function = nullptr;  // kernel launches
  bool needs_context = true;
};

// `body` takes the call and returns a CUresult; its type is unique at each place, so is the fault point.
template <class Parameters, class Body>
CUresult traced(const CallSite& site, const Parameters& parameters, Body body) {
  static FaultPoint& fault = *new FaultPoint(site.name);  // leaked: threads may call until the very end
  if (!g_ready.load(std::memory_order_acquire)) return CUDA_ERROR_NOT_INITIALIZED;
  simgpu_call call{};
  call.cbid = site.cbid;
  call.name = site.name;
  call.parameters = &parameters;
  call.context = current_context();
  if (call.context == nullptr && site.needs_context) return CUDA_ERROR_INVALID_CONTEXT;
  if (call.context != nullptr) call.context_id = call.context->id;
  if (site.function != nullptr) {
    call.symbol = site.function->name.c_str();
    call.module = site.function->module;
  }
  const simgpu_hooks* hooks = g_hooks.load(std::memory_order_acquire);
  if (hooks != nullptr) hooks->enter(&call);
  const auto injected = fault.next();
  call.result = injected ? *injected : body(call);
  if (call.result != CUDA_SUCCESS && site.function != nullptr) {
    g_failed_launches.fetch_add(1, std::memory_order_relaxed);
  }
  if (hooks != nullptr) hooks->exit(&call);
  return call.result;
}

}  // namespace simgpu
