// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "abi/pillion_abi.h"

// The DRIVER API callback ids of everything that puts work on a GPU: launches, graph launches, host
// functions, copies and memsets, in all variants (_v2, the 64-bit ones of CUDA 2 and 3, _ptds/_ptsz:
// per-thread default stream). Source: CUpti_driver_api_trace_cbid in cupti_driver_cbid.h of CUDA 13.0; ids
// are never reused, a library that does not know one refuses it. Not here, because they give neither kernel,
// copy nor memset records: prefetch, discard, batch memory operations, calls that only build graphs.
namespace pillion::shim {

inline constexpr std::uint8_t kNoHandle = 0xff;

struct DriverCbid {
  std::uint16_t cbid;
  std::uint8_t kind;  // enum pillion_launch_kind
  std::uint8_t
      handle_offset;  // of the CUfunction, CUgraphExec or host function in the call's parameter struct
  const char* name;
};

// clang-format off
inline constexpr DriverCbid kDriverCbids[] = {
    {115, PILLION_LAUNCH_KERNEL, 0, "cuLaunch"},
    {116, PILLION_LAUNCH_KERNEL, 0, "cuLaunchGrid"},
    {117, PILLION_LAUNCH_KERNEL, 0, "cuLaunchGridAsync"},
    {307, PILLION_LAUNCH_KERNEL, 0, "cuLaunchKernel"},
    {442, PILLION_LAUNCH_KERNEL, 0, "cuLaunchKernel_ptsz"},
    {477, PILLION_LAUNCH_KERNEL, 0, "cuLaunchCooperativeKernel"},
    {478, PILLION_LAUNCH_KERNEL, 0, "cuLaunchCooperativeKernel_ptsz"},
    {480, PILLION_LAUNCH_KERNEL, kNoHandle, "cuLaunchCooperativeKernelMultiDevice"},
    {652, PILLION_LAUNCH_KERNEL, 8, "cuLaunchKernelEx"},
    {653, PILLION_LAUNCH_KERNEL, 8, "cuLaunchKernelEx_ptsz"},
    {514, PILLION_LAUNCH_GRAPH, 0, "cuGraphLaunch"},
    {515, PILLION_LAUNCH_GRAPH, 0, "cuGraphLaunch_ptsz"},
    {527, PILLION_LAUNCH_HOST, 8, "cuLaunchHostFunc"},
    {528, PILLION_LAUNCH_HOST, 8, "cuLaunchHostFunc_ptsz"},
    {43, PILLION_LAUNCH_COPY, kNoHandle, "cuMemcpyHtoD"},
    {44, PILLION_LAUNCH_COPY, kNoHandle, "cu64MemcpyHtoD"},
    {45, PILLION_LAUNCH_COPY, kNoHandle, "cuMemcpyDtoH"},
    {46, PILLION_LAUNCH_COPY, kNoHandle, "cu64MemcpyDtoH"},
    {47, PILLION_LAUNCH_COPY, kNoHandle, "cuMemcpyDtoD"},
    {48, PILLION_LAUNCH_COPY, kNoHandle, "cu64MemcpyDtoD"},
    {49, PILLION_LAUNCH_COPY, kNoHandle, "cuMemcpyDtoA"},
    {50, PILLION_LAUNCH_COPY, kNoHandle, "cu64MemcpyDtoA"},
    {51, PILLION_LAUNCH_COPY, kNoHandle, "cuMemcpyAtoD"},
    {52, PILLION_LAUNCH_COPY, kNoHandle, "cu64MemcpyAtoD"},
    {53, PILLION_LAUNCH_COPY, kNoHandle, "cuMemcpyHtoA"},
    {54, PILLION_LAUNCH_COPY, kNoHandle, "cuMemcpyAtoH"},
    {55, PILLION_LAUNCH_COPY, kNoHandle, "cuMemcpyAtoA"},
    {56, PILLION_LAUNCH_COPY, kNoHandle, "cuMemcpy2D"},
    {57, PILLION_LAUNCH_COPY, kNoHandle, "cuMemcpy2DUnaligned"},
    {58, PILLION_LAUNCH_COPY, kNoHandle, "cuMemcpy3D"},
    {59, PILLION_LAUNCH_COPY, kNoHandle, "cu64Memcpy3D"},
    {60, PILLION_LAUNCH_COPY, kNoHandle, "cuMemcpyHtoDAsync"},
    {61, PILLION_LAUNCH_COPY, kNoHandle, "cu64MemcpyHtoDAsync"},
    {62, PILLION_LAUNCH_COPY, kNoHandle, "cuMemcpyDtoHAsync"},
    {63, PILLION_LAUNCH_COPY, kNoHandle, "cu64MemcpyDtoHAsync"},
    {64, PILLION_LAUNCH_COPY, kNoHandle, "cuMemcpyDtoDAsync"},
    {65, PILLION_LAUNCH_COPY, kNoHandle, "cu64MemcpyDtoDAsync"},
    {66, PILLION_LAUNCH_COPY, kNoHandle, "cuMemcpyHtoAAsync"},
    {67, PILLION_LAUNCH_COPY, kNoHandle, "cuMemcpyAtoHAsync"},
    {68, PILLION_LAUNCH_COPY, kNoHandle, "cuMemcpy2DAsync"},
    {69, PILLION_LAUNCH_COPY, kNoHandle, "cuMemcpy3DAsync"},
    {70, PILLION_LAUNCH_COPY, kNoHandle, "cu64Memcpy3DAsync"},
    {232, PILLION_LAUNCH_COPY, kNoHandle, "cu64Memcpy2D"},
    {233, PILLION_LAUNCH_COPY, kNoHandle, "cu64Memcpy2DUnaligned"},
    {234, PILLION_LAUNCH_COPY, kNoHandle, "cu64Memcpy2DAsync"},
    {248, PILLION_LAUNCH_COPY, kNoHandle, "cuMemcpy_v2"},
    {276, PILLION_LAUNCH_COPY, kNoHandle, "cuMemcpyHtoD_v2"},
    {277, PILLION_LAUNCH_COPY, kNoHandle, "cuMemcpyHtoDAsync_v2"},
    {278, PILLION_LAUNCH_COPY, kNoHandle, "cuMemcpyDtoH_v2"},
    {279, PILLION_LAUNCH_COPY, kNoHandle, "cuMemcpyDtoHAsync_v2"},
    {280, PILLION_LAUNCH_COPY, kNoHandle, "cuMemcpyDtoD_v2"},
    {281, PILLION_LAUNCH_COPY, kNoHandle, "cuMemcpyDtoDAsync_v2"},
    {282, PILLION_LAUNCH_COPY, kNoHandle, "cuMemcpyAtoH_v2"},
    {283, PILLION_LAUNCH_COPY, kNoHandle, "cuMemcpyAtoHAsync_v2"},
    {284, PILLION_LAUNCH_COPY, kNoHandle, "cuMemcpyAtoD_v2"},
    {285, PILLION_LAUNCH_COPY, kNoHandle, "cuMemcpyDtoA_v2"},
    {286, PILLION_LAUNCH_COPY, kNoHandle, "cuMemcpyAtoA_v2"},
    {287, PILLION_LAUNCH_COPY, kNoHandle, "cuMemcpy2D_v2"},
    {288, PILLION_LAUNCH_COPY, kNoHandle, "cuMemcpy2DUnaligned_v2"},
    {289, PILLION_LAUNCH_COPY, kNoHandle, "cuMemcpy2DAsync_v2"},
    {290, PILLION_LAUNCH_COPY, kNoHandle, "cuMemcpy3D_v2"},
    {291, PILLION_LAUNCH_COPY, kNoHandle, "cuMemcpy3DAsync_v2"},
    {292, PILLION_LAUNCH_COPY, kNoHandle, "cuMemcpyHtoA_v2"},
    {293, PILLION_LAUNCH_COPY, kNoHandle, "cuMemcpyHtoAAsync_v2"},
    {305, PILLION_LAUNCH_COPY, kNoHandle, "cuMemcpy"},
    {306, PILLION_LAUNCH_COPY, kNoHandle, "cuMemcpyAsync"},
    {318, PILLION_LAUNCH_COPY, kNoHandle, "cuMemcpyPeer"},
    {319, PILLION_LAUNCH_COPY, kNoHandle, "cuMemcpyPeerAsync"},
    {320, PILLION_LAUNCH_COPY, kNoHandle, "cuMemcpy3DPeer"},
    {321, PILLION_LAUNCH_COPY, kNoHandle, "cuMemcpy3DPeerAsync"},
    {397, PILLION_LAUNCH_COPY, kNoHandle, "cuMemcpyHtoD_v2_ptds"},
    {398, PILLION_LAUNCH_COPY, kNoHandle, "cuMemcpyDtoH_v2_ptds"},
    {399, PILLION_LAUNCH_COPY, kNoHandle, "cuMemcpyDtoD_v2_ptds"},
    {400, PILLION_LAUNCH_COPY, kNoHandle, "cuMemcpyDtoA_v2_ptds"},
    {401, PILLION_LAUNCH_COPY, kNoHandle, "cuMemcpyAtoD_v2_ptds"},
    {402, PILLION_LAUNCH_COPY, kNoHandle, "cuMemcpyHtoA_v2_ptds"},
    {403, PILLION_LAUNCH_COPY, kNoHandle, "cuMemcpyAtoH_v2_ptds"},
    {404, PILLION_LAUNCH_COPY, kNoHandle, "cuMemcpyAtoA_v2_ptds"},
    {405, PILLION_LAUNCH_COPY, kNoHandle, "cuMemcpy2D_v2_ptds"},
    {406, PILLION_LAUNCH_COPY, kNoHandle, "cuMemcpy2DUnaligned_v2_ptds"},
    {407, PILLION_LAUNCH_COPY, kNoHandle, "cuMemcpy3D_v2_ptds"},
    {408, PILLION_LAUNCH_COPY, kNoHandle, "cuMemcpy_ptds"},
    {409, PILLION_LAUNCH_COPY, kNoHandle, "cuMemcpyPeer_ptds"},
    {410, PILLION_LAUNCH_COPY, kNoHandle, "cuMemcpy3DPeer_ptds"},
    {418, PILLION_LAUNCH_COPY, kNoHandle, "cuMemcpyAsync_ptsz"},
    {419, PILLION_LAUNCH_COPY, kNoHandle, "cuMemcpyHtoAAsync_v2_ptsz"},
    {420, PILLION_LAUNCH_COPY, kNoHandle, "cuMemcpyAtoHAsync_v2_ptsz"},
    {421, PILLION_LAUNCH_COPY, kNoHandle, "cuMemcpyHtoDAsync_v2_ptsz"},
    {422, PILLION_LAUNCH_COPY, kNoHandle, "cuMemcpyDtoHAsync_v2_ptsz"},
    {423, PILLION_LAUNCH_COPY, kNoHandle, "cuMemcpyDtoDAsync_v2_ptsz"},
    {424, PILLION_LAUNCH_COPY, kNoHandle, "cuMemcpy2DAsync_v2_ptsz"},
    {425, PILLION_LAUNCH_COPY, kNoHandle, "cuMemcpy3DAsync_v2_ptsz"},
    {426, PILLION_LAUNCH_COPY, kNoHandle, "cuMemcpyPeerAsync_ptsz"},
    {427, PILLION_LAUNCH_COPY, kNoHandle, "cuMemcpy3DPeerAsync_ptsz"},
    {776, PILLION_LAUNCH_COPY, kNoHandle, "cuMemcpyBatchAsync"},
    {777, PILLION_LAUNCH_COPY, kNoHandle, "cuMemcpyBatchAsync_ptsz"},
    {778, PILLION_LAUNCH_COPY, kNoHandle, "cuMemcpy3DBatchAsync"},
    {779, PILLION_LAUNCH_COPY, kNoHandle, "cuMemcpy3DBatchAsync_ptsz"},
    {796, PILLION_LAUNCH_COPY, kNoHandle, "cuMemcpyBatchAsync_v2"},
    {797, PILLION_LAUNCH_COPY, kNoHandle, "cuMemcpyBatchAsync_v2_ptsz"},
    {798, PILLION_LAUNCH_COPY, kNoHandle, "cuMemcpy3DBatchAsync_v2"},
    {799, PILLION_LAUNCH_COPY, kNoHandle, "cuMemcpy3DBatchAsync_v2_ptsz"},
    {71, PILLION_LAUNCH_SET, kNoHandle, "cuMemsetD8"},
    {72, PILLION_LAUNCH_SET, kNoHandle, "cu64MemsetD8"},
    {73, PILLION_LAUNCH_SET, kNoHandle, "cuMemsetD16"},
    {74, PILLION_LAUNCH_SET, kNoHandle, "cu64MemsetD16"},
    {75, PILLION_LAUNCH_SET, kNoHandle, "cuMemsetD32"},
    {76, PILLION_LAUNCH_SET, kNoHandle, "cu64MemsetD32"},
    {77, PILLION_LAUNCH_SET, kNoHandle, "cuMemsetD2D8"},
    {78, PILLION_LAUNCH_SET, kNoHandle, "cu64MemsetD2D8"},
    {79, PILLION_LAUNCH_SET, kNoHandle, "cuMemsetD2D16"},
    {80, PILLION_LAUNCH_SET, kNoHandle, "cu64MemsetD2D16"},
    {81, PILLION_LAUNCH_SET, kNoHandle, "cuMemsetD2D32"},
    {82, PILLION_LAUNCH_SET, kNoHandle, "cu64MemsetD2D32"},
    {216, PILLION_LAUNCH_SET, kNoHandle, "cuMemsetD8Async"},
    {217, PILLION_LAUNCH_SET, kNoHandle, "cu64MemsetD8Async"},
    {218, PILLION_LAUNCH_SET, kNoHandle, "cuMemsetD16Async"},
    {219, PILLION_LAUNCH_SET, kNoHandle, "cu64MemsetD16Async"},
    {220, PILLION_LAUNCH_SET, kNoHandle, "cuMemsetD32Async"},
    {221, PILLION_LAUNCH_SET, kNoHandle, "cu64MemsetD32Async"},
    {222, PILLION_LAUNCH_SET, kNoHandle, "cuMemsetD2D8Async"},
    {223, PILLION_LAUNCH_SET, kNoHandle, "cu64MemsetD2D8Async"},
    {224, PILLION_LAUNCH_SET, kNoHandle, "cuMemsetD2D16Async"},
    {225, PILLION_LAUNCH_SET, kNoHandle, "cu64MemsetD2D16Async"},
    {226, PILLION_LAUNCH_SET, kNoHandle, "cuMemsetD2D32Async"},
    {227, PILLION_LAUNCH_SET, kNoHandle, "cu64MemsetD2D32Async"},
    {249, PILLION_LAUNCH_SET, kNoHandle, "cuMemsetD8_v2"},
    {250, PILLION_LAUNCH_SET, kNoHandle, "cuMemsetD16_v2"},
    {251, PILLION_LAUNCH_SET, kNoHandle, "cuMemsetD32_v2"},
    {252, PILLION_LAUNCH_SET, kNoHandle, "cuMemsetD2D8_v2"},
    {253, PILLION_LAUNCH_SET, kNoHandle, "cuMemsetD2D16_v2"},
    {254, PILLION_LAUNCH_SET, kNoHandle, "cuMemsetD2D32_v2"},
    {411, PILLION_LAUNCH_SET, kNoHandle, "cuMemsetD8_v2_ptds"},
    {412, PILLION_LAUNCH_SET, kNoHandle, "cuMemsetD16_v2_ptds"},
    {413, PILLION_LAUNCH_SET, kNoHandle, "cuMemsetD32_v2_ptds"},
    {414, PILLION_LAUNCH_SET, kNoHandle, "cuMemsetD2D8_v2_ptds"},
    {415, PILLION_LAUNCH_SET, kNoHandle, "cuMemsetD2D16_v2_ptds"},
    {416, PILLION_LAUNCH_SET, kNoHandle, "cuMemsetD2D32_v2_ptds"},
    {428, PILLION_LAUNCH_SET, kNoHandle, "cuMemsetD8Async_ptsz"},
    {429, PILLION_LAUNCH_SET, kNoHandle, "cuMemsetD16Async_ptsz"},
    {430, PILLION_LAUNCH_SET, kNoHandle, "cuMemsetD32Async_ptsz"},
    {431, PILLION_LAUNCH_SET, kNoHandle, "cuMemsetD2D8Async_ptsz"},
    {432, PILLION_LAUNCH_SET, kNoHandle, "cuMemsetD2D16Async_ptsz"},
    {433, PILLION_LAUNCH_SET, kNoHandle, "cuMemsetD2D32Async_ptsz"},
};
// clang-format on

// Calls that end a context, by all their ids: cuCtxDestroy, cuDevicePrimaryCtxRelease and ...Reset. What
// CUPTI has not handed over when they return is lost.
inline constexpr std::uint16_t kContextEndCbids[] = {11, 322, 387, 389, 544, 545};

// Calls in which the thread waits for the GPU until a stream, an event or a context is done. Copies that wait
// are above, as copies. Not here: cuStreamQuery and cuEventQuery, which do not wait (a loop over one of them
// is the program's own work); calls that wait only by the way, as cuMemFree or the end of a context.
struct SyncCbid {
  std::uint16_t cbid;
  const char* name;
};
inline constexpr SyncCbid kSyncCbids[] = {
    {17, "cuCtxSynchronize"},          {121, "cuEventSynchronize"},  {126, "cuStreamSynchronize"},
    {440, "cuStreamSynchronize_ptsz"}, {800, "cuCtxSynchronize_v2"},
};

inline constexpr std::uint32_t kDriverCbidLimit = 1024;  // above every id of the tables

}  // namespace pillion::shim
