// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cuda_driver.h"
#include "cupti_types.h"

// The double's entry points, called directly.
extern "C" {
pillion::cupti::Result cuptiGetVersion(std::uint32_t* version);
pillion::cupti::Result cuptiSubscribe(pillion::cupti::Subscriber* subscriber,
                                      pillion::cupti::CallbackFunc callback, void* userdata);
pillion::cupti::Result cuptiSubscribe_v2(pillion::cupti::Subscriber* subscriber,
                                         pillion::cupti::CallbackFunc callback, void* userdata,
                                         pillion::cupti::SubscriberParams* params);
pillion::cupti::Result cuptiUnsubscribe(pillion::cupti::Subscriber subscriber);
pillion::cupti::Result cuptiEnableCallback(std::uint32_t enable, pillion::cupti::Subscriber subscriber,
                                           pillion::cupti::CallbackDomain domain, std::uint32_t cbid);
pillion::cupti::Result cuptiEnableDomain(std::uint32_t enable, pillion::cupti::Subscriber subscriber,
                                         pillion::cupti::CallbackDomain domain);
pillion::cupti::Result cuptiActivityRegisterCallbacks(pillion::cupti::BufferRequestedFunc requested,
                                                      pillion::cupti::BufferCompletedFunc completed);
pillion::cupti::Result cuptiActivityRegisterTimestampCallback(pillion::cupti::TimestampFunc callback);
pillion::cupti::Result cuptiActivityEnable(pillion::cupti::ActivityKind kind);
pillion::cupti::Result cuptiActivityEnableAndDump(pillion::cupti::ActivityKind kind);
pillion::cupti::Result cuptiActivityDisable(pillion::cupti::ActivityKind kind);
pillion::cupti::Result cuptiActivityFlushAll(std::uint32_t flag);
pillion::cupti::Result cuptiActivityGetNextRecord(std::uint8_t* buffer, std::size_t valid_size,
                                                  std::uint8_t** record);
pillion::cupti::Result cuptiActivityGetNumDroppedRecords(void* context, std::uint32_t stream,
                                                         std::size_t* dropped);
pillion::cupti::Result cuptiFinalize();
pillion::cupti::Result cuptiPCSamplingEnable(void* params);
}
