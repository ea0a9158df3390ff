// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

// Our own declarations of the part of CUPTI's C interface that is used, so that everything builds without
// NVIDIA's headers and no header version is baked in. Names follow NVIDIA's, without the CUpti_/CUPTI_
// prefix. Values and layouts are compared with NVIDIA's headers by
// tests/unit/shim/capture/cupti_types_header_test.cpp wherever a toolkit is found. Source: cupti_result.h,
// cupti_callbacks.h, cupti_activity.h of CUDA 13.0. The DRIVER callback ids are in driver_cbids.h, the
// activity records' layouts in record_layout.h.
namespace pillion::cupti {

using Result = std::uint32_t;  // CUptiResult
inline constexpr Result kSuccess = 0;
inline constexpr Result kErrorInvalidParameter = 1;
inline constexpr Result kErrorInvalidOperation = 7;
inline constexpr Result kErrorOutOfMemory = 8;
inline constexpr Result kErrorMaxLimitReached = 12;  // cuptiActivityGetNextRecord: no further record
inline constexpr Result kErrorNotCompatible = 14;    // also: activity kind unknown to this library
inline constexpr Result kErrorNotInitialized = 15;   // also: library and driver do not fit
inline constexpr Result kErrorInvalidKind = 21;
inline constexpr Result kErrorNotSupported = 27;
inline constexpr Result kErrorInsufficientPrivileges = 35;
inline constexpr Result kErrorMultipleSubscribers = 39;  // MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED
inline constexpr Result kErrorUnknown = 999;

enum CallbackDomain : std::uint32_t {
  kDomainDriverApi = 1,
  kDomainRuntimeApi = 2,
  kDomainResource = 3,
  kDomainSynchronize = 4,
  kDomainNvtx = 5,
  kDomainState = 6,
};

enum ApiCallbackSite : std::uint32_t { kApiEnter = 0, kApiExit = 1 };

enum ResourceCbid : std::uint32_t {
  kResourceContextCreated = 1,
  kResourceContextDestroyStarting = 2,
  kResourceStreamCreated = 3,
  kResourceStreamDestroyStarting = 4,
  kResourceCuInitFinished = 5,
  kResourceModuleLoaded = 6,
  kResourceModuleUnloadStarting = 7,
  kResourceModuleProfiled = 8,
  kResourceGraphNodeCreated = 13,
};

enum StateCbid : std::uint32_t { kStateFatalError = 1, kStateError = 2, kStateWarning = 3 };

struct CallbackData {  // DRIVER and RUNTIME domains
  ApiCallbackSite callback_site;
  const char* function_name;
  const void* function_params;
  void* function_return_value;  // CUresult* at EXIT of a driver call
  const char* symbol_name;
  void* context;  // CUcontext
  std::uint32_t context_uid;
  std::uint64_t* correlation_data;
  std::uint32_t correlation_id;
};

struct ResourceData {  // RESOURCE domain
  void* context;       // CUcontext
  void* resource_handle;
  void* resource_descriptor;  // ModuleResourceData* for the MODULE cbids
};

struct ModuleResourceData {
  std::uint32_t module_id;
  std::size_t cubin_size;
  const char* cubin;
};

struct StateData {  // STATE domain
  Result result;
  const char* message;  // may be null
};

struct SubscriberParams {  // cuptiSubscribe_v2, CUDA 13.0 and newer
  std::size_t struct_size;
  const char* subscriber_name;
  char* old_subscriber_name;  // filled on kErrorMultipleSubscribers
  std::size_t old_subscriber_size;
};
inline constexpr std::size_t kSubscriberNameMax = 53;
inline constexpr std::size_t kOldSubscriberNameMin = 64;

enum ActivityKind : std::uint32_t {
  kActivityMemcpy = 1,
  kActivityMemset = 2,
  kActivityKernel = 3,  // never enabled: it serialises kernels
  kActivityDriver = 4,
  kActivityRuntime = 5,
  kActivityDevice = 8,
  kActivityContext = 9,
  kActivityConcurrentKernel = 10,
  kActivityOverhead = 17,
  kActivityMemcpy2 = 22,  // peer to peer
  kActivityStream = 37,
  kActivitySynchronization = 38,
  kActivityMemory2 = 49,
  kActivityGraphTrace = 51,  // never enabled late: it crashes the application
};

enum ActivityAttribute : std::uint32_t {
  kAttributeDeviceBufferSize = 0,
  kAttributeDeviceBufferPoolLimit = 2,
  kAttributeZeroedOutActivityBuffer = 5,  // value: uint8_t
  kAttributePerThreadActivityBuffer = 9,
};

enum ThreadIdType : std::uint32_t { kThreadIdDefault = 0, kThreadIdSystem = 1 };

enum ActivityFlushFlag : std::uint32_t { kFlushComplete = 0, kFlushForced = 1 };

enum MemcpyKind : std::uint8_t {
  kMemcpyUnknown = 0,
  kMemcpyHtoD = 1,
  kMemcpyDtoH = 2,
  kMemcpyDtoD = 8,
  kMemcpyHtoH = 9,
  kMemcpyPtoP = 10,
};

using Subscriber = void*;  // CUpti_SubscriberHandle
using CallbackFunc = void (*)(void* userdata, CallbackDomain domain, std::uint32_t cbid, const void* data);
using BufferRequestedFunc = void (*)(std::uint8_t** buffer, std::size_t* size, std::size_t* max_records);
using BufferCompletedFunc = void (*)(void* context, std::uint32_t stream, std::uint8_t* buffer,
                                     std::size_t size, std::size_t valid_size);
using TimestampFunc = std::uint64_t (*)();

// Types of the library's functions, named after them.
using GetVersion = Result (*)(std::uint32_t* version);
using GetResultString = Result (*)(Result result, const char** text);
using Subscribe = Result (*)(Subscriber* subscriber, CallbackFunc callback, void* userdata);
using SubscribeV2 = Result (*)(Subscriber* subscriber, CallbackFunc callback, void* userdata,
                               SubscriberParams* params);
using Unsubscribe = Result (*)(Subscriber subscriber);
using EnableCallback = Result (*)(std::uint32_t enable, Subscriber subscriber, CallbackDomain domain,
                                  std::uint32_t cbid);
using EnableDomain = Result (*)(std::uint32_t enable, Subscriber subscriber, CallbackDomain domain);
using GetCallbackState = Result (*)(std::uint32_t* enabled, Subscriber subscriber, CallbackDomain domain,
                                    std::uint32_t cbid);
using ActivityRegisterCallbacks = Result (*)(BufferRequestedFunc requested, BufferCompletedFunc completed);
using ActivityRegisterTimestampCallback = Result (*)(TimestampFunc callback);
using ActivityEnable = Result (*)(ActivityKind kind);
using ActivityEnableAndDump = Result (*)(ActivityKind kind);
using ActivityDisable = Result (*)(ActivityKind kind);
using ActivityFlushAll = Result (*)(std::uint32_t flag);
using ActivityGetNextRecord = Result (*)(std::uint8_t* buffer, std::size_t valid_size, std::uint8_t** record);
using ActivityGetNumDroppedRecords = Result (*)(void* context, std::uint32_t stream, std::size_t* dropped);
using ActivitySetAttribute = Result (*)(ActivityAttribute attribute, std::size_t* value_size, void* value);
using SetThreadIdType = Result (*)(ThreadIdType type);
using GetTimestamp = Result (*)(std::uint64_t* timestamp);
using GetContextId = Result (*)(void* context, std::uint32_t* id);
using Finalize = Result (*)();

}  // namespace pillion::cupti
