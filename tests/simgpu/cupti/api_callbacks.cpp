// SPDX-License-Identifier: Apache-2.0
#include <unistd.h>

#include <cstring>
#include <ctime>
#include <string>

#include "common/knobs.h"
#include "cupti/call_log.h"
#include "cupti/callbacks.h"
#include "cupti/driver.h"
#include "cupti/session.h"

using namespace pillion::cupti;
using simgpu::api;

namespace {

// Somebody outside this process's knowledge holds the subscriber: SIMGPU_SUBSCRIBER_HELD names him; with
// SIMGPU_SUBSCRIBER_HELD_WHILE only as long as that file exists.
bool held_by_knob(std::string* holder) {
  *holder = simgpu::knob_text("SIMGPU_SUBSCRIBER_HELD");
  if (holder->empty()) return false;
  const std::string file = simgpu::knob_text("SIMGPU_SUBSCRIBER_HELD_WHILE");
  return file.empty() || access(file.c_str(), F_OK) == 0;
}

// SIMGPU_SUBSCRIBE_MS: how long it takes; -1: it never returns. SIMGPU_SUBSCRIBE_UNTIL: not before that file
// exists.
void take_time() {
  static const auto ms = static_cast<std::int64_t>(simgpu::knob("SIMGPU_SUBSCRIBE_MS", 0));
  if (ms < 0) {
    for (;;) pause();
  }
  const std::string file = simgpu::knob_text("SIMGPU_SUBSCRIBE_UNTIL");
  const timespec look{0, 10'000'000};
  while (!file.empty() && access(file.c_str(), F_OK) != 0) nanosleep(&look, nullptr);
  const timespec wait{static_cast<time_t>(ms / 1000), static_cast<long>(ms % 1000 * 1'000'000)};
  if (ms > 0) clock_nanosleep(CLOCK_MONOTONIC, 0, &wait, nullptr);
}

Result subscribe(Subscriber* subscriber, CallbackFunc callback, void* userdata, const char* name,
                 std::string* holder) {
  if (subscriber == nullptr || callback == nullptr) return kErrorInvalidParameter;
  take_time();
  if (held_by_knob(holder)) return kErrorMultipleSubscribers;
  const Result begun = simgpu::begin_session();
  if (begun != kSuccess) return begun;
  const char* other = "";
  simgpu::Subscriber* taken = simgpu::take_subscriber(callback, userdata, name, &other);
  *holder = other;
  if (taken == nullptr) return kErrorMultipleSubscribers;
  *subscriber = taken;
  return kSuccess;
}

}  // namespace

extern "C" {

Result cuptiSubscribe(Subscriber* subscriber, CallbackFunc callback, void* userdata) {
  simgpu::log_entry("cuptiSubscribe");
  return api("cuptiSubscribe", [&]() -> Result {
    std::string holder;
    return subscribe(subscriber, callback, userdata, "", &holder);
  });
}

Result cuptiSubscribe_v2(Subscriber* subscriber, CallbackFunc callback, void* userdata,
                         SubscriberParams* params) {
  simgpu::log_entry("cuptiSubscribe_v2");
  return api("cuptiSubscribe_v2", [&]() -> Result {
    if (params == nullptr || params->struct_size < sizeof *params) return kErrorInvalidParameter;
    const char* name = params->subscriber_name != nullptr ? params->subscriber_name : "";
    if (std::strlen(name) > kSubscriberNameMax) return kErrorInvalidParameter;
    std::string holder;
    const Result result = subscribe(subscriber, callback, userdata, name, &holder);
    if (result == kErrorMultipleSubscribers && params->old_subscriber_name != nullptr &&
        params->old_subscriber_size > 0) {
      std::strncpy(params->old_subscriber_name, holder.c_str(), params->old_subscriber_size - 1);
      params->old_subscriber_name[params->old_subscriber_size - 1] = '\0';
    }
    return result;
  });
}

Result cuptiUnsubscribe(Subscriber subscriber) {
  return api("cuptiUnsubscribe", [&]() -> Result {
    return simgpu::drop_subscriber(static_cast<simgpu::Subscriber*>(subscriber)) ? kSuccess
                                                                                 : kErrorInvalidParameter;
  });
}

Result cuptiEnableCallback(std::uint32_t enable, Subscriber subscriber, CallbackDomain domain,
                           std::uint32_t cbid) {
  return api("cuptiEnableCallback", [&]() -> Result {
    if (!simgpu::is_subscriber(subscriber)) return kErrorInvalidParameter;
    return simgpu::enable_callback(domain, cbid, enable != 0) ? kSuccess : kErrorInvalidParameter;
  });
}

Result cuptiEnableDomain(std::uint32_t enable, Subscriber subscriber, CallbackDomain domain) {
  return api("cuptiEnableDomain", [&]() -> Result {
    if (!simgpu::is_subscriber(subscriber)) return kErrorInvalidParameter;
    return simgpu::enable_domain(domain, enable != 0) ? kSuccess : kErrorInvalidParameter;
  });
}

Result cuptiEnableAllDomains(std::uint32_t enable, Subscriber subscriber) {
  return api("cuptiEnableAllDomains", [&]() -> Result {
    if (!simgpu::is_subscriber(subscriber)) return kErrorInvalidParameter;
    for (std::uint32_t domain = kDomainDriverApi; domain <= kDomainState; ++domain) {
      simgpu::enable_domain(domain, enable != 0);
    }
    return kSuccess;
  });
}

Result cuptiGetCallbackState(std::uint32_t* enable, Subscriber subscriber, CallbackDomain domain,
                             std::uint32_t cbid) {
  return api("cuptiGetCallbackState", [&]() -> Result {
    if (enable == nullptr || !simgpu::is_subscriber(subscriber)) return kErrorInvalidParameter;
    *enable = simgpu::callback_enabled(domain, cbid) ? 1 : 0;
    return kSuccess;
  });
}
}
