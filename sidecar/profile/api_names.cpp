// SPDX-License-Identifier: Apache-2.0
#include "profile/api_names.h"

#include <algorithm>
#include <array>

namespace pillion::profile {
namespace {

struct Api {
  std::uint32_t cbid;
  const char* name;
};

// Numbers: enum CUpti_driver_api_trace_cbid of CUPTI 13.0 (they are appended to, never changed). Ascending.
constexpr Api kApis[] = {
    {17, "cuCtxSynchronize"},
    {43, "cuMemcpyHtoD"},
    {45, "cuMemcpyDtoH"},
    {47, "cuMemcpyDtoD"},
    {49, "cuMemcpyDtoA"},
    {51, "cuMemcpyAtoD"},
    {53, "cuMemcpyHtoA"},
    {54, "cuMemcpyAtoH"},
    {55, "cuMemcpyAtoA"},
    {56, "cuMemcpy2D"},
    {57, "cuMemcpy2DUnaligned"},
    {58, "cuMemcpy3D"},
    {60, "cuMemcpyHtoDAsync"},
    {62, "cuMemcpyDtoHAsync"},
    {64, "cuMemcpyDtoDAsync"},
    {66, "cuMemcpyHtoAAsync"},
    {67, "cuMemcpyAtoHAsync"},
    {68, "cuMemcpy2DAsync"},
    {69, "cuMemcpy3DAsync"},
    {71, "cuMemsetD8"},
    {73, "cuMemsetD16"},
    {75, "cuMemsetD32"},
    {77, "cuMemsetD2D8"},
    {79, "cuMemsetD2D16"},
    {81, "cuMemsetD2D32"},
    {115, "cuLaunch"},
    {116, "cuLaunchGrid"},
    {117, "cuLaunchGridAsync"},
    {121, "cuEventSynchronize"},
    {126, "cuStreamSynchronize"},
    {216, "cuMemsetD8Async"},
    {218, "cuMemsetD16Async"},
    {220, "cuMemsetD32Async"},
    {222, "cuMemsetD2D8Async"},
    {224, "cuMemsetD2D16Async"},
    {226, "cuMemsetD2D32Async"},
    {248, "cuMemcpy"},
    {249, "cuMemsetD8"},
    {250, "cuMemsetD16"},
    {251, "cuMemsetD32"},
    {252, "cuMemsetD2D8"},
    {253, "cuMemsetD2D16"},
    {254, "cuMemsetD2D32"},
    {276, "cuMemcpyHtoD"},
    {277, "cuMemcpyHtoDAsync"},
    {278, "cuMemcpyDtoH"},
    {279, "cuMemcpyDtoHAsync"},
    {280, "cuMemcpyDtoD"},
    {281, "cuMemcpyDtoDAsync"},
    {282, "cuMemcpyAtoH"},
    {283, "cuMemcpyAtoHAsync"},
    {284, "cuMemcpyAtoD"},
    {285, "cuMemcpyDtoA"},
    {286, "cuMemcpyAtoA"},
    {287, "cuMemcpy2D"},
    {288, "cuMemcpy2DUnaligned"},
    {289, "cuMemcpy2DAsync"},
    {290, "cuMemcpy3D"},
    {291, "cuMemcpy3DAsync"},
    {292, "cuMemcpyHtoA"},
    {293, "cuMemcpyHtoAAsync"},
    {305, "cuMemcpy"},
    {306, "cuMemcpyAsync"},
    {307, "cuLaunchKernel"},
    {318, "cuMemcpyPeer"},
    {319, "cuMemcpyPeerAsync"},
    {320, "cuMemcpy3DPeer"},
    {321, "cuMemcpy3DPeerAsync"},
    {397, "cuMemcpyHtoD"},
    {398, "cuMemcpyDtoH"},
    {399, "cuMemcpyDtoD"},
    {400, "cuMemcpyDtoA"},
    {401, "cuMemcpyAtoD"},
    {402, "cuMemcpyHtoA"},
    {403, "cuMemcpyAtoH"},
    {404, "cuMemcpyAtoA"},
    {405, "cuMemcpy2D"},
    {406, "cuMemcpy2DUnaligned"},
    {407, "cuMemcpy3D"},
    {408, "cuMemcpy"},
    {409, "cuMemcpyPeer"},
    {410, "cuMemcpy3DPeer"},
    {411, "cuMemsetD8"},
    {412, "cuMemsetD16"},
    {413, "cuMemsetD32"},
    {414, "cuMemsetD2D8"},
    {415, "cuMemsetD2D16"},
    {416, "cuMemsetD2D32"},
    {418, "cuMemcpyAsync"},
    {419, "cuMemcpyHtoAAsync"},
    {420, "cuMemcpyAtoHAsync"},
    {421, "cuMemcpyHtoDAsync"},
    {422, "cuMemcpyDtoHAsync"},
    {423, "cuMemcpyDtoDAsync"},
    {424, "cuMemcpy2DAsync"},
    {425, "cuMemcpy3DAsync"},
    {426, "cuMemcpyPeerAsync"},
    {427, "cuMemcpy3DPeerAsync"},
    {428, "cuMemsetD8Async"},
    {429, "cuMemsetD16Async"},
    {430, "cuMemsetD32Async"},
    {431, "cuMemsetD2D8Async"},
    {432, "cuMemsetD2D16Async"},
    {433, "cuMemsetD2D32Async"},
    {440, "cuStreamSynchronize"},
    {442, "cuLaunchKernel"},
    {467, "cuMemPrefetchAsync"},
    {468, "cuMemPrefetchAsync"},
    {477, "cuLaunchCooperativeKernel"},
    {478, "cuLaunchCooperativeKernel"},
    {480, "cuLaunchCooperativeKernelMultiDevice"},
    {514, "cuGraphLaunch"},
    {515, "cuGraphLaunch"},
    {527, "cuLaunchHostFunc"},
    {528, "cuLaunchHostFunc"},
    {580, "cuGraphUpload"},
    {581, "cuGraphUpload"},
    {652, "cuLaunchKernelEx"},
    {653, "cuLaunchKernelEx"},
    {716, "cuMemPrefetchAsync"},
    {717, "cuMemPrefetchAsync"},
    {776, "cuMemcpyBatchAsync"},
    {777, "cuMemcpyBatchAsync"},
    {778, "cuMemcpy3DBatchAsync"},
    {779, "cuMemcpy3DBatchAsync"},
    {784, "cuMemPrefetchBatchAsync"},
    {785, "cuMemPrefetchBatchAsync"},
    {791, "cuMemDiscardAndPrefetchBatchAsync"},
    {792, "cuMemDiscardAndPrefetchBatchAsync"},
    {796, "cuMemcpyBatchAsync"},
    {797, "cuMemcpyBatchAsync"},
    {798, "cuMemcpy3DBatchAsync"},
    {799, "cuMemcpy3DBatchAsync"},
    {800, "cuCtxSynchronize"},
};
static_assert(std::is_sorted(std::begin(kApis), std::end(kApis),
                             [](const Api& a, const Api& b) { return a.cbid < b.cbid; }));

// By enum CUpti_ActivityMemcpyKind.
constexpr std::array<const char*, 11> kCopies = {
    "[memcpy]",      "[memcpy HtoD]", "[memcpy DtoH]", "[memcpy HtoA]", "[memcpy AtoH]", "[memcpy AtoA]",
    "[memcpy AtoD]", "[memcpy DtoA]", "[memcpy DtoD]", "[memcpy HtoH]", "[memcpy PtoP]"};

}  // namespace

std::string api_name(std::uint32_t cbid) {
  const auto* found =
      std::lower_bound(std::begin(kApis), std::end(kApis), cbid,
                       [](const Api& api, std::uint32_t wanted) { return api.cbid < wanted; });
  if (found != std::end(kApis) && found->cbid == cbid) return found->name;
  return "driver call " + std::to_string(cbid);
}

std::string copy_name(std::uint32_t copy_kind) {
  if (copy_kind < kCopies.size()) return kCopies[copy_kind];
  return "[memcpy kind " + std::to_string(copy_kind) + "]";
}

}  // namespace pillion::profile
