// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "abi/pillion_abi.h"
#include "cupti_api.h"

namespace pillion::shim {

inline constexpr std::uint32_t kActivityKindsMax = 8;

// What arming has switched on.
struct Subscription {
  cupti::Subscriber subscriber;
  cupti::ActivityKind kinds[kActivityKindsMax];
  std::uint32_t kind_count;
  std::uint32_t in_force;  // enum pillion_kinds: those of the request that CUPTI can give
};

// For module loads and unloads alone: no activity, no callback at launches. Fills `refused` on failure.
[[nodiscard]] bool subscribe_modules(const CuptiApi& api, Subscription* out, pillion_refused* refused);

// Subscribes, unless `out` holds a subscription of subscribe_modules(), sets the clock and registers the
// buffer callbacks; records nothing yet. On failure undoes what it did and fills `refused`. After error 39
// (somebody else subscribes) no further CUPTI call is made. Capture thread.
[[nodiscard]] bool subscribe_cupti(const CuptiApi& api, Subscription* out, pillion_refused* refused);

// Switches on the activity kinds and then the callbacks. Records may come before it returns. On failure
// switches off and unsubscribes, and fills `refused`.
[[nodiscard]] bool enable_recording(const CuptiApi& api, std::uint32_t kinds, Subscription* subscription,
                                    pillion_refused* refused);

// MODULE_PROFILED alone; see ModuleStore. Any thread, also inside a callback.
void enable_module_profiled(const CuptiApi& api, cupti::Subscriber subscriber, bool on);

inline constexpr std::uint32_t kLaunchKernelCbid = 307;  // the callback that must be on

// Whether records will carry CLOCK_MONOTONIC. Libraries without cuptiGetTimestamp are believed.
[[nodiscard]] bool clock_is_monotonic(const CuptiApi& api);

}  // namespace pillion::shim
