// SPDX-License-Identifier: Apache-2.0
#include <cstring>

#include "cupti/buffers.h"
#include "cupti/call_log.h"
#include "cupti/clock.h"
#include "cupti/driver.h"
#include "cupti/record_layout.h"
#include "cupti/records.h"
#include "cupti/session.h"

using namespace pillion::cupti;
using simgpu::api;

extern "C" {

Result cuptiActivityRegisterCallbacks(BufferRequestedFunc requested, BufferCompletedFunc completed) {
  return api("cuptiActivityRegisterCallbacks", [&]() -> Result {
    return simgpu::register_buffer_callbacks(requested, completed) ? kSuccess : kErrorInvalidParameter;
  });
}

Result cuptiActivityRegisterTimestampCallback(TimestampFunc callback) {
  return api("cuptiActivityRegisterTimestampCallback", [&]() -> Result {
    return simgpu::register_timestamp_callback(callback) ? kSuccess : kErrorInvalidParameter;
  });
}

Result cuptiActivityEnable(ActivityKind kind) {
  return api("cuptiActivityEnable", [&]() -> Result {
    const Result begun = simgpu::begin_session();
    return begun != kSuccess ? begun : simgpu::enable_kind(kind);
  });
}

Result cuptiActivityEnableAndDump(ActivityKind kind) {
  return api("cuptiActivityEnableAndDump", [&]() -> Result {
    const Result begun = simgpu::begin_session();
    return begun != kSuccess ? begun : simgpu::dump_kind(kind);
  });
}

Result cuptiActivityDisable(ActivityKind kind) {
  return api("cuptiActivityDisable", [&]() -> Result { return simgpu::disable_kind(kind); });
}

Result cuptiActivityFlushAll(std::uint32_t flag) {
  return api("cuptiActivityFlushAll",
             [&]() -> Result { return simgpu::flush_buffers((flag & kFlushForced) != 0); });
}

Result cuptiActivityFlush(void*, std::uint32_t, std::uint32_t flag) {
  return api("cuptiActivityFlush",
             [&]() -> Result { return simgpu::flush_buffers((flag & kFlushForced) != 0); });
}

// Full buffers go back by themselves as soon as they are complete, so there is nothing to do periodically.
Result cuptiActivityFlushPeriod(std::uint32_t) {
  return api("cuptiActivityFlushPeriod", []() -> Result { return kSuccess; });
}

// Not through api(): runs once per record. *record is null for the first.
Result cuptiActivityGetNextRecord(std::uint8_t* buffer, std::size_t valid_size, std::uint8_t** record) {
  if (buffer == nullptr || record == nullptr) return kErrorInvalidParameter;
  std::size_t at = 0;
  if (*record != nullptr) {
    const std::size_t size = simgpu::record_size(simgpu::get_field<std::uint32_t>(*record, 0));
    if (size == 0) return kErrorInvalidKind;
    at = static_cast<std::size_t>(*record - buffer) + size;
  }
  if (at >= valid_size) return kErrorMaxLimitReached;
  if (simgpu::record_size(simgpu::get_field<std::uint32_t>(buffer + at, 0)) == 0) return kErrorInvalidKind;
  *record = buffer + at;
  return kSuccess;
}

Result cuptiActivityGetNumDroppedRecords(void*, std::uint32_t, std::size_t* dropped) {
  return api("cuptiActivityGetNumDroppedRecords", [&]() -> Result {
    if (dropped == nullptr) return kErrorInvalidParameter;
    *dropped = simgpu::take_dropped();
    return kSuccess;
  });
}

Result cuptiActivitySetAttribute(ActivityAttribute attribute, std::size_t* value_size, void* value) {
  return api("cuptiActivitySetAttribute", [&]() -> Result {
    if (value_size == nullptr || value == nullptr || attribute > kAttributePerThreadActivityBuffer) {
      return kErrorInvalidParameter;
    }
    if (attribute == kAttributeZeroedOutActivityBuffer) {
      simgpu::set_zeroed_by_client(*static_cast<const std::uint8_t*>(value) != 0);
    }
    return kSuccess;
  });
}

Result cuptiActivityEnableLatencyTimestamps(std::uint8_t enable) {
  return api("cuptiActivityEnableLatencyTimestamps", [&]() -> Result {
    simgpu::set_latency_timestamps(enable != 0);
    return kSuccess;
  });
}

Result cuptiActivityEnableHWTrace(std::uint8_t) {
  return api("cuptiActivityEnableHWTrace", []() -> Result { return kErrorNotSupported; });
}
}
