// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "cuda/call.h"
#include "cuda/clock.h"
#include "cuda/stream.h"
#include "cuda_driver.h"

// Device memory is host memory. The bytes move when the call is made, not when the simulated copy runs:
// kernels compute nothing, so no program can tell but by its own races.
namespace {

using simgpu::traced;

// CUpti_ActivityMemcpyKind and CUpti_ActivityMemoryKind.
constexpr std::uint32_t kHtoD = 1, kDtoH = 2, kDtoD = 8, kPtoP = 10;
constexpr std::uint32_t kPageable = 1, kDevice = 3;

// Bytes per microsecond: a PCIe 5 link, NVLink and the device's own memory, roughly.
std::uint64_t copy_ns(std::uint32_t kind, std::size_t bytes) {
  const std::uint64_t rate = kind == kDtoD ? 1'000'000 : kind == kPtoP ? 200'000 : 25'000;
  return 1000 + std::uint64_t{bytes} * 1000 / rate;
}

simgpu::Work copy_work(std::uint32_t kind, std::size_t bytes) {
  simgpu::Work work;
  work.op.kind = kind == kPtoP ? SIMGPU_PEER_COPY : SIMGPU_COPY;
  work.op.copy_kind = kind;
  work.op.source_kind = kind == kHtoD ? kPageable : kDevice;
  work.op.destination_kind = kind == kDtoH ? kPageable : kDevice;
  work.op.bytes = bytes;
  work.duration_ns = copy_ns(kind, bytes);
  return work;
}

void* at(CUdeviceptr pointer) { return reinterpret_cast<void*>(static_cast<std::uintptr_t>(pointer)); }

struct CopyParameters {
  std::uintptr_t to, from;
  std::size_t bytes;
  CUstream stream;
};

template <std::uint32_t Cbid>
CUresult copy(const char* name, std::uint32_t kind, void* to, const void* from, std::size_t bytes,
              CUstream stream, bool wait) {
  const CopyParameters parameters{reinterpret_cast<std::uintptr_t>(to),
                                  reinterpret_cast<std::uintptr_t>(from), bytes, stream};
  return traced({Cbid, name}, parameters, [&](simgpu_call& call) -> CUresult {
    if (to == nullptr || from == nullptr) return CUDA_ERROR_INVALID_VALUE;
    CUstream resolved = simgpu::resolve(stream);
    if (!simgpu::capturing(resolved)) std::memmove(to, from, bytes);
    const std::uint64_t end = simgpu::put(resolved, call, copy_work(kind, bytes));
    if (wait) {
      const std::uint64_t begin = simgpu::now_ns();
      simgpu::sleep_until(end);
      simgpu::note_wait(name, begin, simgpu::now_ns());
    }
    return CUDA_SUCCESS;
  });
}

struct PeerParameters {
  CUdeviceptr to;
  CUcontext to_context;
  CUdeviceptr from;
  CUcontext from_context;
  std::size_t bytes;
  CUstream stream;
};

template <std::uint32_t Cbid>
CUresult copy_peer(const char* name, const PeerParameters& p, bool wait) {
  return traced({Cbid, name}, p, [&](simgpu_call& call) -> CUresult {
    if (p.to_context == nullptr || p.from_context == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
    CUstream resolved = simgpu::resolve(p.stream);
    if (!simgpu::capturing(resolved)) std::memmove(at(p.to), at(p.from), p.bytes);
    simgpu::Work work = copy_work(kPtoP, p.bytes);
    work.op.source_device = static_cast<std::uint32_t>(p.from_context->device);
    work.op.source_context = p.from_context->id;
    work.op.destination_device = static_cast<std::uint32_t>(p.to_context->device);
    work.op.destination_context = p.to_context->id;
    const std::uint64_t end = simgpu::put(resolved, call, work);
    if (wait) simgpu::sleep_until(end);
    return CUDA_SUCCESS;
  });
}

template <class Value>
struct SetParameters {
  CUdeviceptr to;
  Value value;
  std::size_t count;
  CUstream stream;
};

template <std::uint32_t Cbid, class Value>
CUresult set(const char* name, const SetParameters<Value>& p, bool wait) {
  return traced({Cbid, name}, p, [&](simgpu_call& call) -> CUresult {
    if (p.to == 0) return CUDA_ERROR_INVALID_VALUE;
    CUstream resolved = simgpu::resolve(p.stream);
    if (!simgpu::capturing(resolved)) std::fill_n(static_cast<Value*>(at(p.to)), p.count, p.value);
    simgpu::Work work;
    work.op.kind = SIMGPU_SET;
    work.op.bytes = p.count * sizeof(Value);
    work.op.value = p.value;
    work.op.destination_kind = kDevice;
    work.duration_ns = 1000 + work.op.bytes / 2000;
    const std::uint64_t end = simgpu::put(resolved, call, work);
    if (wait) simgpu::sleep_until(end);
    return CUDA_SUCCESS;
  });
}

struct PointerParameters {
  CUdeviceptr pointer;
};

}  // namespace

extern "C" {

CUresult cuMemAlloc_v2(CUdeviceptr* pointer, size_t bytes) {
  const struct {
    CUdeviceptr* pointer;
    size_t bytes;
  } parameters{pointer, bytes};
  return traced({243, "cuMemAlloc_v2"}, parameters, [&](simgpu_call&) -> CUresult {
    if (bytes == 0) return CUDA_ERROR_INVALID_VALUE;
    void* memory = std::malloc(bytes);
    if (memory == nullptr) return CUDA_ERROR_OUT_OF_MEMORY;
    *pointer = reinterpret_cast<std::uintptr_t>(memory);
    return CUDA_SUCCESS;
  });
}

CUresult cuMemFree_v2(CUdeviceptr pointer) {
  return traced({245, "cuMemFree_v2"}, PointerParameters{pointer}, [&](simgpu_call& call) -> CUresult {
    for (CUstream stream : simgpu::streams_of(call.context)) simgpu::wait_stream(stream);
    std::free(at(pointer));
    return CUDA_SUCCESS;
  });
}

CUresult cuMemHostAlloc(void** pointer, size_t bytes, unsigned int flags) {
  const struct {
    void** pointer;
    size_t bytes;
    unsigned int flags;
  } parameters{pointer, bytes, flags};
  return traced({39, "cuMemHostAlloc"}, parameters, [&](simgpu_call&) -> CUresult {
    *pointer = std::malloc(bytes);
    return *pointer != nullptr ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
  });
}

CUresult cuMemFreeHost(void* pointer) {
  const PointerParameters parameters{reinterpret_cast<std::uintptr_t>(pointer)};
  return traced({38, "cuMemFreeHost"}, parameters, [&](simgpu_call&) -> CUresult {
    std::free(pointer);
    return CUDA_SUCCESS;
  });
}

CUresult cuMemcpyHtoD_v2(CUdeviceptr to, const void* from, size_t bytes) {
  return copy<276>("cuMemcpyHtoD_v2", kHtoD, at(to), from, bytes, nullptr, true);
}

CUresult cuMemcpyDtoH_v2(void* to, CUdeviceptr from, size_t bytes) {
  return copy<278>("cuMemcpyDtoH_v2", kDtoH, to, at(from), bytes, nullptr, true);
}

CUresult cuMemcpyDtoD_v2(CUdeviceptr to, CUdeviceptr from, size_t bytes) {
  return copy<280>("cuMemcpyDtoD_v2", kDtoD, at(to), at(from), bytes, nullptr, false);
}

CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void* from, size_t bytes, CUstream stream) {
  return copy<277>("cuMemcpyHtoDAsync_v2", kHtoD, at(to), from, bytes, stream, false);
}

CUresult cuMemcpyDtoHAsync_v2(void* to, CUdeviceptr from, size_t bytes, CUstream stream) {
  return copy<279>("cuMemcpyDtoHAsync_v2", kDtoH, to, at(from), bytes, stream, false);
}

CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream) {
  return copy<281>("cuMemcpyDtoDAsync_v2", kDtoD, at(to), at(from), bytes, stream, false);
}

CUresult cuMemcpyPeer(CUdeviceptr to, CUcontext to_context, CUdeviceptr from, CUcontext from_context,
                      size_t bytes) {
  return copy_peer<318>("cuMemcpyPeer", {to, to_context, from, from_context, bytes, nullptr}, true);
}

CUresult cuMemcpyPeerAsync(CUdeviceptr to, CUcontext to_context, CUdeviceptr from, CUcontext from_context,
                           size_t bytes, CUstream stream) {
  return copy_peer<319>("cuMemcpyPeerAsync", {to, to_context, from, from_context, bytes, stream}, false);
}

CUresult cuMemsetD8_v2(CUdeviceptr to, unsigned char value, size_t count) {
  return set<249, unsigned char>("cuMemsetD8_v2", {to, value, count, nullptr}, false);
}

CUresult cuMemsetD32_v2(CUdeviceptr to, unsigned int value, size_t count) {
  return set<251, unsigned int>("cuMemsetD32_v2", {to, value, count, nullptr}, false);
}

CUresult cuMemsetD8Async(CUdeviceptr to, unsigned char value, size_t count, CUstream stream) {
  return set<216, unsigned char>("cuMemsetD8Async", {to, value, count, stream}, false);
}

CUresult cuMemsetD32Async(CUdeviceptr to, unsigned int value, size_t count, CUstream stream) {
  return set<220, unsigned int>("cuMemsetD32Async", {to, value, count, stream}, false);
}
}
