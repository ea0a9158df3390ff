// SPDX-License-Identifier: Apache-2.0
// Compares tests/simgpu/cuda_driver.h with NVIDIA's cuda.h. Both declare the same names, so each goes into a
// namespace of its own; what they include is included before.
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <catch2/catch_test_macros.hpp>
#include <cstddef>
#include <type_traits>

#define __CUDA_API_VERSION_INTERNAL \
  1  // declares the unsuffixed and the old variants too, without renaming macros
namespace nvidia {
#include <cuda.h>
}
#undef CU_STREAM_LEGACY
#undef CU_STREAM_PER_THREAD

#define SIMGPU_NO_EXTERN_C
namespace own {
#include "cuda_driver.h"
}

namespace {

// Same size and same way of passing: integers and enums in general registers, pointers, floats.
template <class Own, class Real>
constexpr bool same_argument() {
  const bool whole =
      (std::is_integral_v<Own> || std::is_enum_v<Own>)&&(std::is_integral_v<Real> || std::is_enum_v<Real>);
  const bool pointer = std::is_pointer_v<Own> && std::is_pointer_v<Real>;
  return sizeof(Own) == sizeof(Real) && (whole || pointer);
}

template <class Own, class Real>
struct SameCall : std::false_type {};
template <class OwnResult, class... Own, class RealResult, class... Real>
struct SameCall<OwnResult(Own...), RealResult(Real...)> {
  static constexpr bool compare() {
    if constexpr (sizeof...(Own) != sizeof...(Real)) {
      return false;
    } else {
      return same_argument<OwnResult, RealResult>() && (same_argument<Own, Real>() && ...);
    }
  }
  static constexpr bool value = compare();
};

}  // namespace

#define SAME_CALL(name) static_assert(SameCall<decltype(own::name), decltype(nvidia::name)>::value, #name)
#define SAME_VALUE(name) static_assert(static_cast<int>(own::name) == static_cast<int>(nvidia::name), #name)

SAME_CALL(cuInit);
SAME_CALL(cuDriverGetVersion);
SAME_CALL(cuGetErrorName);
SAME_CALL(cuGetErrorString);
SAME_CALL(cuGetExportTable);
SAME_CALL(cuDeviceGet);
SAME_CALL(cuDeviceGetCount);
SAME_CALL(cuDeviceGetName);
SAME_CALL(cuDeviceGetUuid);
SAME_CALL(cuDeviceGetUuid_v2);
SAME_CALL(cuDeviceGetAttribute);
SAME_CALL(cuDeviceTotalMem_v2);
SAME_CALL(cuDevicePrimaryCtxRetain);
SAME_CALL(cuDevicePrimaryCtxRelease_v2);
SAME_CALL(cuDevicePrimaryCtxGetState);
SAME_CALL(cuCtxCreate_v2);
SAME_CALL(cuCtxCreate_v4);
SAME_CALL(cuCtxDestroy_v2);
SAME_CALL(cuCtxSetCurrent);
SAME_CALL(cuCtxGetCurrent);
SAME_CALL(cuCtxPushCurrent_v2);
SAME_CALL(cuCtxPopCurrent_v2);
SAME_CALL(cuCtxGetDevice);
SAME_CALL(cuCtxGetApiVersion);
SAME_CALL(cuCtxSynchronize);
SAME_CALL(cuCtxSynchronize_v2);
SAME_CALL(cuModuleLoadData);
SAME_CALL(cuModuleLoadDataEx);
SAME_CALL(cuModuleUnload);
SAME_CALL(cuModuleGetFunction);
SAME_CALL(cuFuncGetName);
SAME_CALL(cuFuncGetModule);
SAME_CALL(cuLaunchKernel);
SAME_CALL(cuLaunchCooperativeKernel);
SAME_CALL(cuLaunchKernelEx);
SAME_CALL(cuLaunchHostFunc);
SAME_CALL(cuStreamCreate);
SAME_CALL(cuStreamCreateWithPriority);
SAME_CALL(cuStreamDestroy_v2);
SAME_CALL(cuStreamSynchronize);
SAME_CALL(cuStreamQuery);
SAME_CALL(cuStreamWaitEvent);
SAME_CALL(cuStreamBeginCapture_v2);
SAME_CALL(cuStreamEndCapture);
SAME_CALL(cuStreamIsCapturing);
SAME_CALL(cuGraphInstantiateWithFlags);
SAME_CALL(cuGraphLaunch);
SAME_CALL(cuGraphExecDestroy);
SAME_CALL(cuGraphDestroy);
SAME_CALL(cuGraphGetNodes);
SAME_CALL(cuEventCreate);
SAME_CALL(cuEventRecord);
SAME_CALL(cuEventQuery);
SAME_CALL(cuEventSynchronize);
SAME_CALL(cuEventElapsedTime);
SAME_CALL(cuEventDestroy_v2);
SAME_CALL(cuMemAlloc_v2);
SAME_CALL(cuMemFree_v2);
SAME_CALL(cuMemHostAlloc);
SAME_CALL(cuMemFreeHost);
SAME_CALL(cuMemcpyHtoD_v2);
SAME_CALL(cuMemcpyDtoH_v2);
SAME_CALL(cuMemcpyDtoD_v2);
SAME_CALL(cuMemcpyHtoDAsync_v2);
SAME_CALL(cuMemcpyDtoHAsync_v2);
SAME_CALL(cuMemcpyDtoDAsync_v2);
SAME_CALL(cuMemcpyPeer);
SAME_CALL(cuMemcpyPeerAsync);
SAME_CALL(cuMemsetD8_v2);
SAME_CALL(cuMemsetD32_v2);
SAME_CALL(cuMemsetD8Async);
SAME_CALL(cuMemsetD32Async);

SAME_VALUE(CUDA_ERROR_INVALID_VALUE);
SAME_VALUE(CUDA_ERROR_OUT_OF_MEMORY);
SAME_VALUE(CUDA_ERROR_NOT_INITIALIZED);
SAME_VALUE(CUDA_ERROR_NO_DEVICE);
SAME_VALUE(CUDA_ERROR_INVALID_DEVICE);
SAME_VALUE(CUDA_ERROR_INVALID_IMAGE);
SAME_VALUE(CUDA_ERROR_INVALID_CONTEXT);
SAME_VALUE(CUDA_ERROR_INVALID_HANDLE);
SAME_VALUE(CUDA_ERROR_NOT_FOUND);
SAME_VALUE(CUDA_ERROR_NOT_READY);
SAME_VALUE(CUDA_ERROR_ILLEGAL_ADDRESS);
SAME_VALUE(CUDA_ERROR_LAUNCH_FAILED);
SAME_VALUE(CUDA_ERROR_NOT_SUPPORTED);
SAME_VALUE(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
SAME_VALUE(CUDA_ERROR_STREAM_CAPTURE_UNMATCHED);
SAME_VALUE(CUDA_ERROR_UNKNOWN);
SAME_VALUE(CU_STREAM_NON_BLOCKING);
SAME_VALUE(CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
SAME_VALUE(CU_STREAM_CAPTURE_MODE_RELAXED);
SAME_VALUE(CU_STREAM_CAPTURE_STATUS_ACTIVE);
SAME_VALUE(CU_GRAPH_NODE_TYPE_MEMCPY);
SAME_VALUE(CU_GRAPH_NODE_TYPE_MEMSET);
SAME_VALUE(CU_GRAPH_NODE_TYPE_HOST);
SAME_VALUE(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK);
SAME_VALUE(CU_DEVICE_ATTRIBUTE_WARP_SIZE);
SAME_VALUE(CU_DEVICE_ATTRIBUTE_CLOCK_RATE);
SAME_VALUE(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
SAME_VALUE(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
SAME_VALUE(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
SAME_VALUE(CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM);

static_assert(sizeof(own::CUlaunchConfig) == sizeof(nvidia::CUlaunchConfig));
static_assert(offsetof(own::CUlaunchConfig, blockDimX) == offsetof(nvidia::CUlaunchConfig, blockDimX));
static_assert(offsetof(own::CUlaunchConfig, hStream) == offsetof(nvidia::CUlaunchConfig, hStream));
static_assert(offsetof(own::CUlaunchConfig, numAttrs) == offsetof(nvidia::CUlaunchConfig, numAttrs));
static_assert(sizeof(own::CUuuid) == sizeof(nvidia::CUuuid));

TEST_CASE("the driver API is declared as NVIDIA's cuda.h declares it") {
  SUCCEED("compared by the compiler");
}
