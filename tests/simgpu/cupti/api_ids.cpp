// SPDX-License-Identifier: Apache-2.0
#include "cupti/call_log.h"
#include "cupti/clock.h"
#include "cupti/driver.h"

using namespace pillion::cupti;
using simgpu::api;
using simgpu::driver;

namespace {

constexpr Result kErrorInvalidContext = 3;
constexpr Result kErrorInvalidStream = 20;

struct CubinCrcParams {  // CUpti_GetCubinCrcParams
  std::size_t size;
  std::size_t cubin_size;
  const void* cubin;
  std::uint64_t crc;
};

}  // namespace

extern "C" {

Result cuptiGetTimestamp(std::uint64_t* timestamp) {
  return api("cuptiGetTimestamp", [&]() -> Result {
    if (timestamp == nullptr) return kErrorInvalidParameter;
    *timestamp = simgpu::client_now_ns();
    return kSuccess;
  });
}

Result cuptiGetContextId(CUcontext context, std::uint32_t* id) {
  return api("cuptiGetContextId", [&]() -> Result {
    if (driver() == nullptr) return kErrorNotInitialized;
    return driver()->context_info(context, id, nullptr, nullptr) != 0 ? kSuccess : kErrorInvalidContext;
  });
}

Result cuptiGetDeviceId(CUcontext context, std::uint32_t* id) {
  return api("cuptiGetDeviceId", [&]() -> Result {
    if (driver() == nullptr) return kErrorNotInitialized;
    return driver()->context_info(context, nullptr, id, nullptr) != 0 ? kSuccess : kErrorInvalidContext;
  });
}

Result cuptiGetStreamIdEx(CUcontext context, CUstream stream, std::uint8_t, std::uint32_t* id) {
  return api("cuptiGetStreamIdEx", [&]() -> Result {
    if (driver() == nullptr) return kErrorNotInitialized;
    return driver()->stream_id(context, stream, id) != 0 ? kSuccess : kErrorInvalidStream;
  });
}

Result cuptiGetStreamId(CUcontext context, CUstream stream, std::uint32_t* id) {
  return cuptiGetStreamIdEx(context, stream, 0, id);
}

Result cuptiGetGraphId(CUgraph graph, std::uint32_t* id) {
  return api("cuptiGetGraphId", [&]() -> Result {
    if (driver() == nullptr) return kErrorNotInitialized;
    return driver()->graph_id(graph, id) != 0 ? kSuccess : kErrorInvalidParameter;
  });
}

Result cuptiGetGraphExecId(CUgraphExec exec, std::uint32_t* id) {
  return api("cuptiGetGraphExecId", [&]() -> Result {
    if (driver() == nullptr) return kErrorNotInitialized;
    return driver()->graph_exec_id(exec, id) != 0 ? kSuccess : kErrorInvalidParameter;
  });
}

Result cuptiGetGraphNodeId(CUgraphNode node, std::uint64_t* id) {
  return api("cuptiGetGraphNodeId", [&]() -> Result {
    if (driver() == nullptr) return kErrorNotInitialized;
    return driver()->graph_node_id(node, id) != 0 ? kSuccess : kErrorInvalidParameter;
  });
}

// Works without a driver in the real library; here it needs the libcuda double.
Result cuptiGetCubinCrc(CubinCrcParams* params) {
  return api("cuptiGetCubinCrc", [&]() -> Result {
    if (params == nullptr || params->cubin == nullptr || params->size < sizeof *params)
      return kErrorInvalidParameter;
    if (driver() == nullptr) return kErrorNotInitialized;
    params->crc = driver()->cubin_crc(params->cubin, params->cubin_size);
    return kSuccess;
  });
}
}
