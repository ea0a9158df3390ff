// SPDX-License-Identifier: Apache-2.0
#include "cupti_fit.h"

namespace pillion::shim {
namespace {

struct ApiVersion {
  std::uint32_t api;
  std::uint32_t cuda;
};

// Newest first: the first CUDA version of each running number. Source: CUPTI's release notes.
constexpr ApiVersion kApiVersions[] = {{27, 12090}, {26, 12080}, {24, 12060}, {23, 12050}, {22, 12040},
                                       {21, 12030}, {20, 12020}, {19, 12000}, {18, 11080}, {17, 11060},
                                       {16, 11050}, {15, 11020}, {14, 11010}, {13, 11000}};

// CUPTI 11.6, 11.2 and 10.2 crashed the program at their first activity call under driver 580
// (CUDA 13.0); 11.8 and newer recorded everything. Nobody has shown 11.7 and older to work under a driver of
// another major: refused.
constexpr std::uint32_t kOldestAcrossMajors = 18;

}  // namespace

std::uint32_t cuda_version_of_cupti(std::uint32_t api_version) {
  if (api_version >= 100000) return api_version / 10000 * 1000 + api_version / 100 % 100 * 10;
  for (const ApiVersion& entry : kApiVersions) {
    if (api_version >= entry.api) return entry.cuda;
  }
  return 0;
}

CuptiFit cupti_fit(std::uint32_t api_version, std::uint32_t driver_version) {
  if (driver_version == 0) return CuptiFit::fits;
  const std::uint32_t library_major = cuda_version_of_cupti(api_version) / 1000;
  const std::uint32_t driver_major = driver_version / 1000;
  if (library_major == 0) return CuptiFit::too_old;
  if (library_major > driver_major) return CuptiFit::too_new;
  if (api_version < kOldestAcrossMajors && library_major < driver_major) return CuptiFit::too_old;
  return CuptiFit::fits;
}

}  // namespace pillion::shim
