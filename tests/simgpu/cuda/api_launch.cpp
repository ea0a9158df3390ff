// SPDX-License-Identifier: Apache-2.0
#include <cstring>

#include "cuda/call.h"
#include "cuda/stream.h"
#include "cuda_driver.h"

namespace {

using simgpu::CallSite;
using simgpu::traced;

struct Shape {
  unsigned int grid[3], block[3], shared;
};

std::uint64_t duration_of(CUfunction f, void** parameters) {
  std::uint64_t ns = f->duration_ns;
  if (f->duration_from_argument && parameters != nullptr) std::memcpy(&ns, parameters[0], sizeof ns);
  return ns;
}

CUresult launch(const simgpu_call& call, CUfunction f, const Shape& shape, CUstream handle, void** parameters,
                std::uint32_t launch_type) {
  if (f == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (std::uint64_t{shape.block[0]} * shape.block[1] * shape.block[2] - 1 >= 1024 || shape.grid[0] == 0) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  simgpu::Work work;
  work.op.kind = SIMGPU_KERNEL;
  work.op.name = f->name.c_str();
  work.op.function_index = f->index;
  std::memcpy(work.op.grid, shape.grid, sizeof shape.grid);
  std::memcpy(work.op.block, shape.block, sizeof shape.block);
  work.op.dynamic_shared = shape.shared;
  work.op.registers = 16;
  work.op.launch_type = launch_type;
  work.duration_ns = duration_of(f, parameters);
  simgpu::put(simgpu::resolve(handle), call, work);
  return CUDA_SUCCESS;
}

// The calls' parameter blocks, as CUPTI hands them out. The functions below are templates so that each call
// has its own fault point.
struct LaunchParameters {
  CUfunction f;
  unsigned int gx, gy, gz, bx, by, bz, shared_bytes;
  CUstream stream;
  void** parameters;
  void** extra;
};
struct LaunchExParameters {
  const CUlaunchConfig* config;
  CUfunction f;
  void** parameters;
  void** extra;
};

template <std::uint32_t Cbid>
CUresult launch_plain(const char* name, const LaunchParameters& p, std::uint32_t launch_type) {
  return traced({Cbid, name, p.f}, p, [&](simgpu_call& call) {
    const Shape shape{{p.gx, p.gy, p.gz}, {p.bx, p.by, p.bz}, p.shared_bytes};
    return launch(call, p.f, shape, p.stream, p.parameters, launch_type);
  });
}

template <std::uint32_t Cbid>
CUresult launch_ex(const char* name, const LaunchExParameters& p) {
  return traced({Cbid, name, p.f}, p, [&](simgpu_call& call) -> CUresult {
    if (p.config == nullptr) return CUDA_ERROR_INVALID_VALUE;
    const CUlaunchConfig& c = *p.config;
    const Shape shape{
        {c.gridDimX, c.gridDimY, c.gridDimZ}, {c.blockDimX, c.blockDimY, c.blockDimZ}, c.sharedMemBytes};
    return launch(call, p.f, shape, c.hStream, p.parameters, 0);
  });
}

struct HostParameters {
  CUstream stream;
  CUhostFn function;
  void* user_data;
};

template <std::uint32_t Cbid>
CUresult launch_host(const char* name, const HostParameters& p) {
  return traced({Cbid, name}, p, [&](simgpu_call& call) -> CUresult {
    if (p.function == nullptr) return CUDA_ERROR_INVALID_VALUE;
    simgpu::Work work;
    work.op.kind = SIMGPU_HOST;
    work.host_function = p.function;
    work.host_data = p.user_data;
    simgpu::put(simgpu::resolve(p.stream), call, work);
    return CUDA_SUCCESS;
  });
}

}  // namespace

extern "C" {

CUresult cuLaunchKernel(SIMGPU_LAUNCH_PARAMETERS, void** extra) {
  return launch_plain<307>("cuLaunchKernel",
                           {f, gx, gy, gz, bx, by, bz, shared_bytes, stream, parameters, extra}, 0);
}

CUresult cuLaunchKernel_ptsz(SIMGPU_LAUNCH_PARAMETERS, void** extra) {
  return launch_plain<442>("cuLaunchKernel_ptsz",
                           {f, gx, gy, gz, bx, by, bz, shared_bytes, stream, parameters, extra}, 0);
}

CUresult cuLaunchCooperativeKernel(SIMGPU_LAUNCH_PARAMETERS) {
  return launch_plain<477>("cuLaunchCooperativeKernel",
                           {f, gx, gy, gz, bx, by, bz, shared_bytes, stream, parameters, nullptr}, 1);
}

CUresult cuLaunchCooperativeKernel_ptsz(SIMGPU_LAUNCH_PARAMETERS) {
  return launch_plain<478>("cuLaunchCooperativeKernel_ptsz",
                           {f, gx, gy, gz, bx, by, bz, shared_bytes, stream, parameters, nullptr}, 1);
}

CUresult cuLaunchKernelEx(const CUlaunchConfig* config, CUfunction f, void** parameters, void** extra) {
  return launch_ex<652>("cuLaunchKernelEx", {config, f, parameters, extra});
}

CUresult cuLaunchKernelEx_ptsz(const CUlaunchConfig* config, CUfunction f, void** parameters, void** extra) {
  return launch_ex<653>("cuLaunchKernelEx_ptsz", {config, f, parameters, extra});
}

CUresult cuLaunchHostFunc(CUstream stream, CUhostFn function, void* user_data) {
  return launch_host<527>("cuLaunchHostFunc", {stream, function, user_data});
}

CUresult cuLaunchHostFunc_ptsz(CUstream stream, CUhostFn function, void* user_data) {
  return launch_host<528>("cuLaunchHostFunc_ptsz", {stream, function, user_data});
}
}
