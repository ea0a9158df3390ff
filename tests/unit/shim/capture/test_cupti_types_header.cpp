// SPDX-License-Identifier: Apache-2.0
//
// Our declarations against NVIDIA's headers: compiles only when they agree. Built where a toolkit is found.
#include <cuda.h>
#include <cupti.h>

#include <catch2/catch_test_macros.hpp>
#include <cstddef>
#include <cstring>
#include <map>
#include <set>
#include <string>
#include <type_traits>

#include "cupti_types.h"
#include "driver_cbids.h"
#include "record_layout.h"

namespace pc = pillion::cupti;

#define SAME_VALUE(ours, theirs) \
  static_assert(static_cast<std::uint32_t>(ours) == static_cast<std::uint32_t>(theirs))
#define SAME_FIELD(ours, our_field, theirs, their_field)                      \
  static_assert(offsetof(ours, our_field) == offsetof(theirs, their_field) && \
                sizeof(std::declval<ours>().our_field) == sizeof(std::declval<theirs>().their_field))

SAME_VALUE(pc::kSuccess, CUPTI_SUCCESS);
SAME_VALUE(pc::kErrorInvalidParameter, CUPTI_ERROR_INVALID_PARAMETER);
SAME_VALUE(pc::kErrorInvalidOperation, CUPTI_ERROR_INVALID_OPERATION);
SAME_VALUE(pc::kErrorOutOfMemory, CUPTI_ERROR_OUT_OF_MEMORY);
SAME_VALUE(pc::kErrorMaxLimitReached, CUPTI_ERROR_MAX_LIMIT_REACHED);
SAME_VALUE(pc::kErrorNotCompatible, CUPTI_ERROR_NOT_COMPATIBLE);
SAME_VALUE(pc::kErrorNotInitialized, CUPTI_ERROR_NOT_INITIALIZED);
SAME_VALUE(pc::kErrorInvalidKind, CUPTI_ERROR_INVALID_KIND);
SAME_VALUE(pc::kErrorNotSupported, CUPTI_ERROR_NOT_SUPPORTED);
SAME_VALUE(pc::kErrorInsufficientPrivileges, CUPTI_ERROR_INSUFFICIENT_PRIVILEGES);
SAME_VALUE(pc::kErrorMultipleSubscribers, CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED);
SAME_VALUE(pc::kErrorUnknown, CUPTI_ERROR_UNKNOWN);

SAME_VALUE(pc::kDomainDriverApi, CUPTI_CB_DOMAIN_DRIVER_API);
SAME_VALUE(pc::kDomainRuntimeApi, CUPTI_CB_DOMAIN_RUNTIME_API);
SAME_VALUE(pc::kDomainResource, CUPTI_CB_DOMAIN_RESOURCE);
SAME_VALUE(pc::kDomainSynchronize, CUPTI_CB_DOMAIN_SYNCHRONIZE);
SAME_VALUE(pc::kDomainNvtx, CUPTI_CB_DOMAIN_NVTX);
SAME_VALUE(pc::kDomainState, CUPTI_CB_DOMAIN_STATE);
SAME_VALUE(pc::kApiEnter, CUPTI_API_ENTER);
SAME_VALUE(pc::kApiExit, CUPTI_API_EXIT);
SAME_VALUE(pc::kResourceContextCreated, CUPTI_CBID_RESOURCE_CONTEXT_CREATED);
SAME_VALUE(pc::kResourceContextDestroyStarting, CUPTI_CBID_RESOURCE_CONTEXT_DESTROY_STARTING);
SAME_VALUE(pc::kResourceStreamCreated, CUPTI_CBID_RESOURCE_STREAM_CREATED);
SAME_VALUE(pc::kResourceStreamDestroyStarting, CUPTI_CBID_RESOURCE_STREAM_DESTROY_STARTING);
SAME_VALUE(pc::kResourceCuInitFinished, CUPTI_CBID_RESOURCE_CU_INIT_FINISHED);
SAME_VALUE(pc::kResourceModuleLoaded, CUPTI_CBID_RESOURCE_MODULE_LOADED);
SAME_VALUE(pc::kResourceModuleUnloadStarting, CUPTI_CBID_RESOURCE_MODULE_UNLOAD_STARTING);
SAME_VALUE(pc::kResourceModuleProfiled, CUPTI_CBID_RESOURCE_MODULE_PROFILED);
SAME_VALUE(pc::kStateFatalError, CUPTI_CBID_STATE_FATAL_ERROR);
SAME_VALUE(pc::kStateError, CUPTI_CBID_STATE_ERROR);
SAME_VALUE(pc::kStateWarning, CUPTI_CBID_STATE_WARNING);

static_assert(sizeof(pc::CallbackData) == sizeof(CUpti_CallbackData));
SAME_FIELD(pc::CallbackData, callback_site, CUpti_CallbackData, callbackSite);
SAME_FIELD(pc::CallbackData, function_name, CUpti_CallbackData, functionName);
SAME_FIELD(pc::CallbackData, function_params, CUpti_CallbackData, functionParams);
SAME_FIELD(pc::CallbackData, function_return_value, CUpti_CallbackData, functionReturnValue);
SAME_FIELD(pc::CallbackData, symbol_name, CUpti_CallbackData, symbolName);
SAME_FIELD(pc::CallbackData, context, CUpti_CallbackData, context);
SAME_FIELD(pc::CallbackData, context_uid, CUpti_CallbackData, contextUid);
SAME_FIELD(pc::CallbackData, correlation_data, CUpti_CallbackData, correlationData);
SAME_FIELD(pc::CallbackData, correlation_id, CUpti_CallbackData, correlationId);

static_assert(sizeof(pc::ResourceData) == sizeof(CUpti_ResourceData));
SAME_FIELD(pc::ResourceData, context, CUpti_ResourceData, context);
SAME_FIELD(pc::ResourceData, resource_descriptor, CUpti_ResourceData, resourceDescriptor);
static_assert(sizeof(pc::ModuleResourceData) == sizeof(CUpti_ModuleResourceData));
SAME_FIELD(pc::ModuleResourceData, module_id, CUpti_ModuleResourceData, moduleId);
SAME_FIELD(pc::ModuleResourceData, cubin_size, CUpti_ModuleResourceData, cubinSize);
SAME_FIELD(pc::ModuleResourceData, cubin, CUpti_ModuleResourceData, pCubin);
static_assert(sizeof(pc::StateData) == sizeof(CUpti_StateData));
SAME_FIELD(pc::StateData, result, CUpti_StateData, notification.result);
SAME_FIELD(pc::StateData, message, CUpti_StateData, notification.message);

SAME_VALUE(pc::kActivityMemcpy, CUPTI_ACTIVITY_KIND_MEMCPY);
SAME_VALUE(pc::kActivityMemset, CUPTI_ACTIVITY_KIND_MEMSET);
SAME_VALUE(pc::kActivityKernel, CUPTI_ACTIVITY_KIND_KERNEL);
SAME_VALUE(pc::kActivityDriver, CUPTI_ACTIVITY_KIND_DRIVER);
SAME_VALUE(pc::kActivityRuntime, CUPTI_ACTIVITY_KIND_RUNTIME);
SAME_VALUE(pc::kActivityDevice, CUPTI_ACTIVITY_KIND_DEVICE);
SAME_VALUE(pc::kActivityContext, CUPTI_ACTIVITY_KIND_CONTEXT);
SAME_VALUE(pc::kActivityConcurrentKernel, CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL);
SAME_VALUE(pc::kActivityOverhead, CUPTI_ACTIVITY_KIND_OVERHEAD);
SAME_VALUE(pc::kActivityMemcpy2, CUPTI_ACTIVITY_KIND_MEMCPY2);
SAME_VALUE(pc::kActivityStream, CUPTI_ACTIVITY_KIND_STREAM);
SAME_VALUE(pc::kActivitySynchronization, CUPTI_ACTIVITY_KIND_SYNCHRONIZATION);
SAME_VALUE(pc::kActivityMemory2, CUPTI_ACTIVITY_KIND_MEMORY2);
SAME_VALUE(pc::kActivityGraphTrace, CUPTI_ACTIVITY_KIND_GRAPH_TRACE);
SAME_VALUE(pc::kAttributeDeviceBufferSize, CUPTI_ACTIVITY_ATTR_DEVICE_BUFFER_SIZE);
SAME_VALUE(pc::kAttributeDeviceBufferPoolLimit, CUPTI_ACTIVITY_ATTR_DEVICE_BUFFER_POOL_LIMIT);
SAME_VALUE(pc::kAttributeZeroedOutActivityBuffer, CUPTI_ACTIVITY_ATTR_ZEROED_OUT_ACTIVITY_BUFFER);
SAME_VALUE(pc::kThreadIdDefault, CUPTI_ACTIVITY_THREAD_ID_TYPE_DEFAULT);
SAME_VALUE(pc::kThreadIdSystem, CUPTI_ACTIVITY_THREAD_ID_TYPE_SYSTEM);
SAME_VALUE(pc::kFlushForced, CUPTI_ACTIVITY_FLAG_FLUSH_FORCED);
SAME_VALUE(pc::kMemcpyUnknown, CUPTI_ACTIVITY_MEMCPY_KIND_UNKNOWN);
SAME_VALUE(pc::kMemcpyHtoD, CUPTI_ACTIVITY_MEMCPY_KIND_HTOD);
SAME_VALUE(pc::kMemcpyDtoH, CUPTI_ACTIVITY_MEMCPY_KIND_DTOH);
SAME_VALUE(pc::kMemcpyDtoD, CUPTI_ACTIVITY_MEMCPY_KIND_DTOD);
SAME_VALUE(pc::kMemcpyHtoH, CUPTI_ACTIVITY_MEMCPY_KIND_HTOH);
SAME_VALUE(pc::kMemcpyPtoP, CUPTI_ACTIVITY_MEMCPY_KIND_PTOP);

#if CUPTI_API_VERSION >= 130000
SAME_VALUE(pc::kAttributePerThreadActivityBuffer, CUPTI_ACTIVITY_ATTR_PER_THREAD_ACTIVITY_BUFFER);
static_assert(sizeof(pc::SubscriberParams) == sizeof(CUpti_SubscriberParams));
SAME_FIELD(pc::SubscriberParams, struct_size, CUpti_SubscriberParams, structSize);
SAME_FIELD(pc::SubscriberParams, subscriber_name, CUpti_SubscriberParams, subscriberName);
SAME_FIELD(pc::SubscriberParams, old_subscriber_name, CUpti_SubscriberParams, oldSubscriberName);
SAME_FIELD(pc::SubscriberParams, old_subscriber_size, CUpti_SubscriberParams, oldSubscriberSize);
SAME_VALUE(pc::kSubscriberNameMax, CUPTI_SUBSCRIBER_NAME_MAX_LEN);
SAME_VALUE(pc::kOldSubscriberNameMin, CUPTI_OLD_SUBSCRIBER_NAME_MIN_LEN);
#endif

// Of a function: as many parameters, each as wide, and a result as wide. Pointers differ in what they point
// to.
template <typename T>
inline constexpr std::size_t kWidth = sizeof(T);
template <>
inline constexpr std::size_t kWidth<void> = 0;

template <typename Ours, typename Theirs>
struct SameCall : std::false_type {};
template <typename R1, typename... A1, typename R2, typename... A2>
struct SameCall<R1 (*)(A1...), R2 (*)(A2...)>
    : std::bool_constant<kWidth<R1> == kWidth<R2> && sizeof...(A1) == sizeof...(A2) &&
                         ((sizeof(A1) == sizeof(A2) &&
                           std::is_pointer_v<A1> == std::is_pointer_v<A2>)&&...)> {};
#define SAME_CALL(ours, theirs) static_assert(SameCall<pc::ours, decltype(&theirs)>::value)

SAME_CALL(GetVersion, cuptiGetVersion);
SAME_CALL(GetResultString, cuptiGetResultString);
SAME_CALL(Subscribe, cuptiSubscribe);
#if CUPTI_API_VERSION >= 130000
SAME_CALL(SubscribeV2, cuptiSubscribe_v2);
#endif
SAME_CALL(Unsubscribe, cuptiUnsubscribe);
SAME_CALL(EnableCallback, cuptiEnableCallback);
SAME_CALL(EnableDomain, cuptiEnableDomain);
SAME_CALL(ActivityRegisterCallbacks, cuptiActivityRegisterCallbacks);
SAME_CALL(ActivityRegisterTimestampCallback, cuptiActivityRegisterTimestampCallback);
SAME_CALL(ActivityEnable, cuptiActivityEnable);
SAME_CALL(ActivityEnableAndDump, cuptiActivityEnableAndDump);
SAME_CALL(ActivityDisable, cuptiActivityDisable);
SAME_CALL(ActivityFlushAll, cuptiActivityFlushAll);
SAME_CALL(ActivityGetNextRecord, cuptiActivityGetNextRecord);
SAME_CALL(ActivityGetNumDroppedRecords, cuptiActivityGetNumDroppedRecords);
SAME_CALL(ActivitySetAttribute, cuptiActivitySetAttribute);
SAME_CALL(SetThreadIdType, cuptiSetThreadIdType);
SAME_CALL(GetTimestamp, cuptiGetTimestamp);
SAME_CALL(GetContextId, cuptiGetContextId);
SAME_CALL(Finalize, cuptiFinalize);
static_assert(SameCall<pc::CallbackFunc, CUpti_CallbackFunc>::value);
static_assert(SameCall<pc::BufferRequestedFunc, CUpti_BuffersCallbackRequestFunc>::value);
static_assert(SameCall<pc::BufferCompletedFunc, CUpti_BuffersCallbackCompleteFunc>::value);
static_assert(SameCall<pc::TimestampFunc, CUpti_TimestampCallbackFunc>::value);

namespace {

std::map<std::string, std::uint32_t> header_cbids() {
  std::map<std::string, std::uint32_t> ids;
#define PILLION_CBID(name, id) ids[#name] = id;
#include "header_cbids.inc"
#undef PILLION_CBID
  return ids;
}

bool launches_work(const std::string& name) {
  const auto starts = [&](const char* prefix) { return name.rfind(prefix, 0) == 0; };
  return starts("cuMemcpy") || starts("cu64Memcpy") || starts("cuMemset") || starts("cu64Memset") ||
         starts("cuLaunch") || starts("cuGraphLaunch");
}

}  // namespace

TEST_CASE("the table of driver callbacks holds exactly the header's launches, copies and sets") {
  std::map<std::string, std::uint32_t> ours;
  for (const auto& entry : pillion::shim::kDriverCbids) ours[entry.name] = entry.cbid;
  std::map<std::string, std::uint32_t> theirs;
  for (const auto& [name, id] : header_cbids()) {
    if (launches_work(name)) theirs[name] = id;
  }
  REQUIRE(theirs.size() > 100);
  CHECK(ours == theirs);
  for (const auto& [name, id] : theirs) CHECK(id < pillion::shim::kDriverCbidLimit);
}

TEST_CASE("the calls that wait are the header's") {
  std::map<std::string, std::uint32_t> ours;
  for (const auto& entry : pillion::shim::kSyncCbids) ours[entry.name] = entry.cbid;
  std::map<std::string, std::uint32_t> theirs;
  for (const auto& [name, id] : header_cbids()) {
    if (name.find("Synchronize") != std::string::npos) theirs[name] = id;
  }
  CHECK(ours == theirs);
}

TEST_CASE("the calls that end a context are the header's") {
  std::set<std::uint32_t> theirs;
  for (const auto& [name, id] : header_cbids()) {
    for (const char* prefix : {"cuCtxDestroy", "cuDevicePrimaryCtxRelease", "cuDevicePrimaryCtxReset"}) {
      if (name.rfind(prefix, 0) == 0) theirs.insert(id);
    }
  }
  const std::set<std::uint32_t> ours(std::begin(pillion::shim::kContextEndCbids),
                                     std::end(pillion::shim::kContextEndCbids));
  CHECK(ours == theirs);
}

TEST_CASE("handles lie where the parameter structs have them") {
  std::map<std::uint32_t, std::size_t> expected = {
      {CUPTI_DRIVER_TRACE_CBID_cuLaunch, offsetof(cuLaunch_params, f)},
      {CUPTI_DRIVER_TRACE_CBID_cuLaunchGrid, offsetof(cuLaunchGrid_params, f)},
      {CUPTI_DRIVER_TRACE_CBID_cuLaunchGridAsync, offsetof(cuLaunchGridAsync_params, f)},
      {CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel, offsetof(cuLaunchKernel_params, f)},
      {CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel_ptsz, offsetof(cuLaunchKernel_ptsz_params, f)},
      {CUPTI_DRIVER_TRACE_CBID_cuLaunchKernelEx, offsetof(cuLaunchKernelEx_params, f)},
      {CUPTI_DRIVER_TRACE_CBID_cuLaunchKernelEx_ptsz, offsetof(cuLaunchKernelEx_ptsz_params, f)},
      {CUPTI_DRIVER_TRACE_CBID_cuLaunchCooperativeKernel, offsetof(cuLaunchCooperativeKernel_params, f)},
      {CUPTI_DRIVER_TRACE_CBID_cuLaunchCooperativeKernel_ptsz,
       offsetof(cuLaunchCooperativeKernel_ptsz_params, f)},
      {CUPTI_DRIVER_TRACE_CBID_cuGraphLaunch, offsetof(cuGraphLaunch_params, hGraph)},
      {CUPTI_DRIVER_TRACE_CBID_cuGraphLaunch_ptsz, offsetof(cuGraphLaunch_ptsz_params, hGraphExec)},
      {CUPTI_DRIVER_TRACE_CBID_cuLaunchHostFunc, offsetof(cuLaunchHostFunc_params, fn)},
      {CUPTI_DRIVER_TRACE_CBID_cuLaunchHostFunc_ptsz, offsetof(cuLaunchHostFunc_ptsz_params, fn)},
  };
  std::map<std::uint32_t, std::size_t> ours;
  for (const auto& entry : pillion::shim::kDriverCbids) {
    if (entry.handle_offset != pillion::shim::kNoHandle) ours[entry.cbid] = entry.handle_offset;
  }
  CHECK(ours == expected);
}

#if CUPTI_API_VERSION / 100 == 1300
TEST_CASE("the newest layout is this header's") {
  const pillion::shim::RecordLayout layout = pillion::shim::record_layout(CUPTI_API_VERSION);
  CHECK(layout.kernel == sizeof(CUpti_ActivityKernel10));
  CHECK(layout.memcpy == sizeof(CUpti_ActivityMemcpy6));
  CHECK(layout.peer_copy == sizeof(CUpti_ActivityMemcpyPtoP4));
  CHECK(layout.memset == sizeof(CUpti_ActivityMemset4));
  CHECK(layout.overhead == sizeof(CUpti_ActivityOverhead3));
  CHECK(layout.device == sizeof(CUpti_ActivityDevice5));
  CHECK(layout.context == sizeof(CUpti_ActivityContext3));
}

TEST_CASE("a peer copy and a set decode as this header lays them out") {
  CUpti_ActivityMemcpyPtoP4 peer{};
  peer.kind = CUPTI_ACTIVITY_KIND_MEMCPY2;
  peer.copyKind = CUPTI_ACTIVITY_MEMCPY_KIND_PTOP;
  peer.bytes = 77;
  peer.start = 5;
  peer.end = 9;
  peer.deviceId = 1;
  peer.contextId = 2;
  peer.streamId = 3;
  peer.srcDeviceId = 4;
  peer.dstDeviceId = 6;
  peer.correlationId = 8;
  peer.graphNodeId = 10;
  peer.graphId = 11;
  pillion::shim::DecodedRecord decoded;
  const auto layout = pillion::shim::record_layout(CUPTI_API_VERSION);
  REQUIRE(decode_record(layout, reinterpret_cast<const std::uint8_t*>(&peer), sizeof(peer), &decoded) ==
          pillion::shim::DecodeResult::decoded);
  const pillion_copy& copy = decoded.copy;
  CHECK(copy.copy_kind == CUPTI_ACTIVITY_MEMCPY_KIND_PTOP);
  CHECK(copy.bytes == 77);
  CHECK((copy.start_ns == 5 && copy.end_ns == 9));
  CHECK((copy.device == 1 && copy.context == 2 && copy.stream == 3));
  CHECK((copy.source_device == 4 && copy.destination_device == 6));
  CHECK((copy.correlation == 8 && copy.graph_node == 10 && copy.graph == 11));
}
#endif
