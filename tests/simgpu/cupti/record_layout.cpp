// SPDX-License-Identifier: Apache-2.0
#include "cupti/record_layout.h"

#include "common/knobs.h"
#include "cupti_types.h"

namespace simgpu {

using namespace pillion::cupti;

std::uint32_t cupti_version() {
  static const auto version = static_cast<std::uint32_t>(knob("SIMGPU_CUPTI_VERSION", 130001));
  return version;
}

std::size_t record_size(std::uint32_t kind) {
  static const std::uint32_t version = cupti_version();
  switch (kind) {
    case kActivityKernel:
    case kActivityConcurrentKernel:
      return version >= 130000 ? 216 : version >= 19 ? 208 : version >= 18 ? 200 : 176;
    case kActivityMemcpy:
      return version >= 26 ? 96 : 88;
    case kActivityMemcpy2:
      return 96;
    case kActivityMemset:
      return 88;
    case kActivityDevice:
      return version >= 26 ? 184 : 176;
    case kActivityContext:
      return version >= 26 ? 32 : 16;
    case kActivityStream:
      return 24;
    case kActivityOverhead:
      return version >= 26 ? 56 : 40;
    case kActivitySynchronization:
      return version >= 26 ? 56 : 40;
    default:
      return 0;
  }
}

bool kind_exists(std::uint32_t kind) {
  const std::uint32_t version = cupti_version();
  // GRAPH_TRACE is the last of 11.8, DEVICE_GRAPH_TRACE of 12.8, MEM_DECOMPRESS of 13.0.
  const std::uint32_t last = version >= 28 ? 54 : version >= 26 ? 53 : version >= 19 ? 52 : 51;
  return kind >= 1 && kind <= last;
}

std::size_t start_offset(std::uint32_t kind) {
  switch (kind) {
    case kActivityKernel:
    case kActivityConcurrentKernel:
    case kActivityMemcpy:
    case kActivityMemcpy2:
    case kActivityMemset:
      return 16;
    case kActivityOverhead:
      return 24;
    case kActivitySynchronization:
      return 8;
    default:
      return 0;
  }
}

}  // namespace simgpu
