// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "abi/pillion_abi.h"
#include "cupti_types.h"
#include "record_layout.h"

// The CUPTI library as a table of function pointers, found by dlopen at the first arming and then kept for
// the life of the process: it is never closed.
namespace pillion::shim {

struct CuptiApi {
  // Always there once loaded.
  cupti::GetVersion get_version;
  cupti::Subscribe subscribe;
  cupti::Unsubscribe unsubscribe;
  cupti::EnableCallback enable_callback;
  cupti::ActivityRegisterCallbacks register_callbacks;
  cupti::ActivityEnable activity_enable;
  cupti::ActivityDisable activity_disable;
  cupti::ActivityFlushAll flush_all;
  cupti::ActivityGetNextRecord next_record;
  cupti::Finalize finalize;
  // Null where the library is older than the function (or, for a double, poorer).
  cupti::SubscribeV2 subscribe_v2;
  cupti::GetResultString result_string;
  cupti::ActivityRegisterTimestampCallback register_timestamp;
  cupti::GetTimestamp get_timestamp;
  cupti::ActivityEnableAndDump enable_and_dump;
  cupti::ActivityGetNumDroppedRecords dropped_records;
  cupti::ActivitySetAttribute set_attribute;
  cupti::SetThreadIdType set_thread_id_type;
  cupti::GetContextId context_id;
  cupti::GetCallbackState callback_state;

  std::uint32_t version;  // cuptiGetVersion
  RecordLayout layout;
  char path[256];
};

// Finds, loads and checks the library. Order: PILLION_CUPTI_PATH and nothing else if it is set; a copy that
// the process has already mapped, under any name, and nothing else; the newest not above the driver among
// those shipped next to this library (cupti/<version>/libcupti.so.*, libcupti.so.*); the dynamic linker's
// search path. Null on failure: `refused` then has reason (NO_CUPTI or CUPTI_MISMATCH) and text. Capture
// thread.
[[nodiscard]] const CuptiApi* cupti_load(std::uint32_t driver_version, pillion_refused* refused);

// The loaded library, or null. Any thread.
[[nodiscard]] const CuptiApi* cupti_loaded();

}  // namespace pillion::shim
