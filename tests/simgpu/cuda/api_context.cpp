// SPDX-License-Identifier: Apache-2.0
#include <mutex>

#include "cuda/call.h"
#include "cuda/clock.h"
#include "cuda/context.h"
#include "cuda_driver.h"

namespace {

using simgpu::traced;

std::mutex g_primary_mutex;

bool bad_device(CUdevice device) {
  return device < 0 || static_cast<std::uint32_t>(device) >= simgpu::device_count();
}

template <std::uint32_t Cbid>
CUresult create(const char* name, CUcontext* context, unsigned int flags, CUdevice device) {
  const struct {
    CUcontext* context;
    unsigned int flags;
    CUdevice device;
  } parameters{context, flags, device};
  return traced({Cbid, name, nullptr, false}, parameters, [&](simgpu_call&) -> CUresult {
    if (bad_device(device)) return CUDA_ERROR_INVALID_DEVICE;
    *context = simgpu::create_context(device, false);
    simgpu::push_current(*context);
    return CUDA_SUCCESS;
  });
}

template <std::uint32_t Cbid, class Parameters>
CUresult synchronize(const char* name, const Parameters& parameters, CUcontext wanted) {
  return traced({Cbid, name}, parameters, [&](simgpu_call& call) -> CUresult {
    CUcontext context = wanted != nullptr ? wanted : call.context;
    simgpu_op op{};
    op.kind = SIMGPU_SYNC;
    op.sync_type = 4;  // CONTEXT_SYNCHRONIZE
    op.context = context->id;
    op.queued_ns = op.start_ns = simgpu::now_ns();
    for (CUstream stream : simgpu::streams_of(context)) simgpu::wait_stream(stream);
    op.end_ns = simgpu::now_ns();
    simgpu::note_wait(name, op.start_ns, op.end_ns);
    simgpu::tell_op(call, op);
    return CUDA_SUCCESS;
  });
}

}  // namespace

extern "C" {

CUresult cuDevicePrimaryCtxRetain(CUcontext* context, CUdevice device) {
  const struct {
    CUcontext* context;
    CUdevice device;
  } parameters{context, device};
  return traced({386, "cuDevicePrimaryCtxRetain", nullptr, false}, parameters, [&](simgpu_call&) -> CUresult {
    if (bad_device(device)) return CUDA_ERROR_INVALID_DEVICE;
    const std::lock_guard lock(g_primary_mutex);
    *context = simgpu::primary_context(device);
    if (*context == nullptr) {
      *context = simgpu::create_context(device, true);
    } else {
      (*context)->references += 1;
    }
    return CUDA_SUCCESS;
  });
}

CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device) {
  const struct { CUdevice device; } parameters{device};
  return traced({544, "cuDevicePrimaryCtxRelease_v2", nullptr, false}, parameters,
                [&](simgpu_call&) -> CUresult {
                  const std::lock_guard lock(g_primary_mutex);
                  CUcontext context = simgpu::primary_context(device);
                  if (context == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
                  if (--context->references == 0) simgpu::destroy_context(context);
                  return CUDA_SUCCESS;
                });
}

CUresult cuDevicePrimaryCtxRelease(CUdevice device) { return cuDevicePrimaryCtxRelease_v2(device); }

CUresult cuDevicePrimaryCtxGetState(CUdevice device, unsigned int* flags, int* active) {
  if (!simgpu::g_ready.load(std::memory_order_acquire)) return CUDA_ERROR_NOT_INITIALIZED;
  if (bad_device(device)) return CUDA_ERROR_INVALID_DEVICE;
  *flags = 0;
  *active = simgpu::primary_context(device) != nullptr ? 1 : 0;
  return CUDA_SUCCESS;
}

CUresult cuCtxCreate_v2(CUcontext* context, unsigned int flags, CUdevice device) {
  return create<235>("cuCtxCreate_v2", context, flags, device);
}

CUresult cuCtxCreate_v4(CUcontext* context, void*, unsigned int flags, CUdevice device) {
  return create<757>("cuCtxCreate_v4", context, flags, device);
}

CUresult cuCtxDestroy_v2(CUcontext context) {
  const struct { CUcontext context; } parameters{context};
  return traced({322, "cuCtxDestroy_v2", nullptr, false}, parameters, [&](simgpu_call&) -> CUresult {
    if (context == nullptr || !context->alive) return CUDA_ERROR_INVALID_CONTEXT;
    simgpu::destroy_context(context);
    CUcontext popped = nullptr;
    if (simgpu::current_context() == context) simgpu::pop_current(&popped);
    return CUDA_SUCCESS;
  });
}

CUresult cuCtxSetCurrent(CUcontext context) {
  const struct { CUcontext context; } parameters{context};
  return traced({303, "cuCtxSetCurrent", nullptr, false}, parameters, [&](simgpu_call&) -> CUresult {
    simgpu::set_current(context);
    return CUDA_SUCCESS;
  });
}

CUresult cuCtxGetCurrent(CUcontext* context) {
  if (!simgpu::g_ready.load(std::memory_order_acquire)) return CUDA_ERROR_NOT_INITIALIZED;
  *context = simgpu::current_context();
  return CUDA_SUCCESS;
}

CUresult cuCtxPushCurrent_v2(CUcontext context) {
  if (!simgpu::g_ready.load(std::memory_order_acquire)) return CUDA_ERROR_NOT_INITIALIZED;
  if (context == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  simgpu::push_current(context);
  return CUDA_SUCCESS;
}

CUresult cuCtxPopCurrent_v2(CUcontext* context) {
  if (!simgpu::g_ready.load(std::memory_order_acquire)) return CUDA_ERROR_NOT_INITIALIZED;
  CUcontext popped = nullptr;
  if (!simgpu::pop_current(&popped)) return CUDA_ERROR_INVALID_CONTEXT;
  if (context != nullptr) *context = popped;
  return CUDA_SUCCESS;
}

CUresult cuCtxGetDevice(CUdevice* device) {
  CUcontext context = simgpu::current_context();
  if (context == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  *device = context->device;
  return CUDA_SUCCESS;
}

CUresult cuCtxGetApiVersion(CUcontext context, unsigned int* version) {
  if (context == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  *version = 3020;
  return CUDA_SUCCESS;
}

CUresult cuCtxSynchronize(void) {
  const int parameters = 0;
  return synchronize<17>("cuCtxSynchronize", parameters, nullptr);
}

CUresult cuCtxSynchronize_v2(CUcontext context) {
  const struct { CUcontext context; } parameters{context};
  return synchronize<800>("cuCtxSynchronize_v2", parameters, context);
}
}
