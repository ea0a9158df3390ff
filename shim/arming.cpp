// SPDX-License-Identifier: Apache-2.0
#include "arming.h"

#include "activity_recorder.h"
#include "bounded_text.h"
#include "capture_step.h"
#include "driver_cbids.h"
#include "launch_recorder.h"
#include "system_calls.h"

namespace pillion::shim {
namespace {

// Registering a second time in one process put later stamps some 1e14 ns off: once, unless CUPTI has
// forgotten it.
bool g_timestamp_registered = false;

constexpr std::uint64_t kClockToleranceNs = 1'000'000'000;

struct KindBit {
  std::uint32_t bit;  // enum pillion_kinds
  cupti::ActivityKind kind;
};

constexpr KindBit kKindBits[] = {
    {PILLION_KIND_KERNEL, cupti::kActivityConcurrentKernel},
    {PILLION_KIND_MEMCPY, cupti::kActivityMemcpy},
    {PILLION_KIND_MEMSET, cupti::kActivityMemset},
    {PILLION_KIND_PEER_COPY, cupti::kActivityMemcpy2},
    {PILLION_KIND_OVERHEAD, cupti::kActivityOverhead},
};
// Told of once each, whether they were there before or come later; neither costs anything at a launch.
constexpr cupti::ActivityKind kDumped[] = {cupti::kActivityDevice, cupti::kActivityContext};
static_assert(sizeof(kKindBits) / sizeof(kKindBits[0]) + sizeof(kDumped) / sizeof(kDumped[0]) <=
              kActivityKindsMax);

void refuse_call(const CuptiApi& api, const char* call, cupti::Result result, pillion_refused* refused) {
  refused->reason = PILLION_REFUSAL_CUPTI_ERROR;
  refused->cupti_result = result;
  BoundedText text(refused->text);
  text.add(call).add(" returned ").add(std::uint64_t{result});
  const char* name = nullptr;
  if (api.result_string != nullptr && api.result_string(result, &name) == cupti::kSuccess &&
      name != nullptr) {
    text.add(" (").add(name).add(")");
  }
}

cupti::Result subscribe(const CuptiApi& api, cupti::Subscriber* out, char (&holder)[64]) {
  const CaptureStep step("cuptiSubscribe");
  static_assert(sizeof(holder) >= cupti::kOldSubscriberNameMin);
  if (api.subscribe_v2 != nullptr) {
    cupti::SubscriberParams params{sizeof(params), "Pillion", holder, sizeof(holder)};
    const cupti::Result result = api.subscribe_v2(out, subscriber_callback, nullptr, &params);
    holder[sizeof(holder) - 1] = '\0';
    if (result == cupti::kSuccess || result == cupti::kErrorMultipleSubscribers) return result;
  }
  return api.subscribe(out, subscriber_callback, nullptr);
}

}  // namespace

bool clock_is_monotonic(const CuptiApi& api) {
  std::uint64_t stamp = 0;
  if (api.get_timestamp == nullptr || api.get_timestamp(&stamp) != cupti::kSuccess) return true;
  const std::uint64_t now = monotonic_ns();
  return stamp + kClockToleranceNs > now && stamp < now + kClockToleranceNs;
}

namespace {

bool set_clock(const CuptiApi& api, pillion_refused* refused) {
  if (g_timestamp_registered && clock_is_monotonic(api)) return true;
  if (api.register_timestamp == nullptr) {
    refused->reason = PILLION_REFUSAL_CUPTI_MISMATCH;
    BoundedText(refused->text)
        .add("this CUPTI is older than CUDA 11.6 and cannot stamp with CLOCK_MONOTONIC");
    return false;
  }
  const cupti::Result result = api.register_timestamp(activity_timestamp);
  if (result != cupti::kSuccess) {
    refuse_call(api, "cuptiActivityRegisterTimestampCallback", result, refused);
    return false;
  }
  g_timestamp_registered = true;
  return true;
}

// Which of enum pillion_kinds a launch of this kind can give records of.
std::uint32_t kinds_of_launch(std::uint8_t launch) {
  constexpr std::uint32_t kCopies = PILLION_KIND_MEMCPY | PILLION_KIND_PEER_COPY;
  switch (launch) {
    case PILLION_LAUNCH_COPY:
      return kCopies;
    case PILLION_LAUNCH_SET:
      return PILLION_KIND_MEMSET;
    case PILLION_LAUNCH_GRAPH:
      return PILLION_KIND_KERNEL | kCopies | PILLION_KIND_MEMSET;
    default:
      return PILLION_KIND_KERNEL;
  }
}

void enable_callbacks(const CuptiApi& api, std::uint32_t kinds, Subscription* subscription,
                      cupti::Result* launch_result) {
  const CaptureStep step("cuptiEnableCallback");
  const auto enable = [&](cupti::CallbackDomain domain, std::uint32_t cbid) {
    return api.enable_callback(1, subscription->subscriber, domain, cbid);
  };
  (void)enable(cupti::kDomainState, cupti::kStateFatalError);
  if ((kinds & PILLION_KIND_MODULES) != 0) {
    const bool loaded = enable(cupti::kDomainResource, cupti::kResourceModuleLoaded) == cupti::kSuccess;
    (void)enable(cupti::kDomainResource, cupti::kResourceModuleUnloadStarting);
    const bool profiled = enable(cupti::kDomainResource, cupti::kResourceModuleProfiled) == cupti::kSuccess;
    if (loaded || profiled) subscription->in_force |= PILLION_KIND_MODULES;
  }
  // A library refuses the ids that are newer than it is; a program that it serves cannot make those calls
  // either.
  for (const DriverCbid& entry : kDriverCbids) {
    // A launch whose execution nobody records would only wait for it.
    if ((kinds & kinds_of_launch(entry.kind)) == 0) continue;
    const cupti::Result result = enable(cupti::kDomainDriverApi, entry.cbid);
    if (entry.cbid == kLaunchKernelCbid) *launch_result = result;
  }
  if ((kinds & PILLION_KIND_SYNC) != 0) {
    bool some = false;
    for (const SyncCbid& entry : kSyncCbids) {
      some |= enable(cupti::kDomainDriverApi, entry.cbid) == cupti::kSuccess;
    }
    if (some) subscription->in_force |= PILLION_KIND_SYNC;
  }
  subscription->in_force |= kinds & PILLION_KIND_CALLS;
  // Called inside a call that is being captured into a graph. A library that does not know it leaves such
  // launches without their mark.
  (void)enable(cupti::kDomainResource, cupti::kResourceGraphNodeCreated);
  for (const std::uint16_t cbid : kContextEndCbids) (void)enable(cupti::kDomainDriverApi, cbid);
}

void undo(const CuptiApi& api, Subscription* subscription) {
  for (std::uint32_t at = 0; at < subscription->kind_count; ++at)
    (void)api.activity_disable(subscription->kinds[at]);
  subscription->kind_count = 0;
  (void)api.unsubscribe(subscription->subscriber);
}

}  // namespace

namespace {

bool subscribe_or_refuse(const CuptiApi& api, Subscription* out, pillion_refused* refused) {
  *out = {};
  const cupti::Result result = subscribe(api, &out->subscriber, refused->holder);
  if (result == cupti::kSuccess) return true;
  out->subscriber = nullptr;
  if (result != cupti::kErrorMultipleSubscribers) {
    refuse_call(api, "cuptiSubscribe", result, refused);
    return false;
  }
  refused->reason = PILLION_REFUSAL_SUBSCRIBER_HELD;
  refused->cupti_result = result;
  if (refused->holder[0] == '\0') BoundedText(refused->holder).add("unknown");
  BoundedText(refused->text).add("CUPTI's subscriber is held by ").add(refused->holder);
  return false;
}

}  // namespace

bool subscribe_modules(const CuptiApi& api, Subscription* out, pillion_refused* refused) {
  if (!subscribe_or_refuse(api, out, refused)) return false;
  const auto enable = [&](std::uint32_t cbid) {
    return api.enable_callback(1, out->subscriber, cupti::kDomainResource, cbid);
  };
  (void)enable(cupti::kResourceModuleUnloadStarting);
  const cupti::Result result = enable(cupti::kResourceModuleLoaded);
  if (result == cupti::kSuccess) return true;
  refuse_call(api, "cuptiEnableCallback(MODULE_LOADED)", result, refused);
  undo(api, out);
  return false;
}

bool subscribe_cupti(const CuptiApi& api, Subscription* out, pillion_refused* refused) {
  if (out->subscriber == nullptr && !subscribe_or_refuse(api, out, refused)) return false;
  if (!set_clock(api, refused)) {
    undo(api, out);
    return false;
  }
  // Our buffers come zeroed; without this CUPTI zeroes each one again on the launching thread.
  std::uint8_t zeroed = 1;
  std::size_t size = sizeof(zeroed);
  if (api.set_attribute != nullptr) {
    (void)api.set_attribute(cupti::kAttributeZeroedOutActivityBuffer, &size, &zeroed);
  }
  if (api.set_thread_id_type != nullptr) (void)api.set_thread_id_type(cupti::kThreadIdSystem);
  const cupti::Result result = api.register_callbacks(buffer_requested, buffer_completed);
  if (result != cupti::kSuccess) {
    refuse_call(api, "cuptiActivityRegisterCallbacks", result, refused);
    undo(api, out);
    return false;
  }
  return true;
}

bool enable_recording(const CuptiApi& api, std::uint32_t kinds, Subscription* subscription,
                      pillion_refused* refused) {
  cupti::Result result = cupti::kSuccess;
  for (const KindBit& entry : kKindBits) {
    if ((kinds & entry.bit) == 0) continue;
    const CaptureStep step("cuptiActivityEnable");
    const cupti::Result one = api.activity_enable(entry.kind);
    if (one == cupti::kSuccess) {
      subscription->kinds[subscription->kind_count++] = entry.kind;
      subscription->in_force |= entry.bit;
    } else if (entry.bit == PILLION_KIND_KERNEL) {
      result = one;  // without the others there is less to see; without this one nothing
      break;
    }
  }
  if (result != cupti::kSuccess) {
    refuse_call(api, "cuptiActivityEnable(CONCURRENT_KERNEL)", result, refused);
    undo(api, subscription);
    return false;
  }
  for (const cupti::ActivityKind kind : kDumped) {
    const CaptureStep step("cuptiActivityEnableAndDump");
    const cupti::Result one =
        api.enable_and_dump != nullptr ? api.enable_and_dump(kind) : api.activity_enable(kind);
    if (one == cupti::kSuccess) subscription->kinds[subscription->kind_count++] = kind;
  }
  enable_callbacks(api, kinds, subscription, &result);
  if (result != cupti::kSuccess) {
    refuse_call(api, "cuptiEnableCallback(cuLaunchKernel)", result, refused);
    undo(api, subscription);
    return false;
  }
  return true;
}

void enable_module_profiled(const CuptiApi& api, cupti::Subscriber subscriber, bool on) {
  (void)api.enable_callback(on ? 1 : 0, subscriber, cupti::kDomainResource, cupti::kResourceModuleProfiled);
}

}  // namespace pillion::shim
