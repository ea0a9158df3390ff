// SPDX-License-Identifier: Apache-2.0
#include "cupti/callbacks.h"

#include <atomic>
#include <cstring>
#include <mutex>
#include <set>
#include <string>

#include "cupti/call_log.h"
#include "cupti/detach_rules.h"
#include "cupti/driver.h"

namespace simgpu {

using namespace pillion::cupti;

namespace {

constexpr std::uint32_t kDomains = 7;
constexpr std::uint32_t kCbids = 1024;

std::atomic<Subscriber*> g_subscriber{nullptr};
std::atomic<std::uint8_t> g_enabled[kDomains][kCbids];
std::mutex g_subscriber_mutex;
std::string& g_holder = *new std::string;
std::set<const Subscriber*>& g_once = *new std::set<const Subscriber*>;  // all there ever were

thread_local int t_exit_callbacks = 0;

void call_back(std::uint32_t domain, std::uint32_t cbid, const void* data) {
  const Subscriber* subscriber = g_subscriber.load(std::memory_order_acquire);
  if (subscriber != nullptr) {
    subscriber->callback(subscriber->userdata, static_cast<CallbackDomain>(domain), cbid, data);
  }
}

CallbackData callback_data(simgpu_call* call, ApiCallbackSite site) {
  CallbackData data{};
  data.callback_site = site;
  data.function_name = call->name;
  data.function_params = call->parameters;
  data.function_return_value = site == kApiExit ? &call->result : nullptr;
  data.symbol_name = call->symbol;
  data.context = call->context;
  data.context_uid = call->context_id;
  data.correlation_data = &call->correlation_data;
  data.correlation_id = call->correlation;
  return data;
}

// CUPTI hands a module over in memory that is good for the callback alone: so is this copy.
ModuleResourceData module_data(const simgpu_module_bytes& bytes, std::string* scratch) {
  scratch->assign(static_cast<const char*>(bytes.bytes), bytes.size);
  return {bytes.id, scratch->size(), scratch->data()};
}

void spoil(std::string* scratch) { std::memset(scratch->data(), 0xdd, scratch->size()); }

}  // namespace

Subscriber* take_subscriber(CallbackFunc callback, void* userdata, const char* name, const char** holder) {
  const std::lock_guard lock(g_subscriber_mutex);
  if (const Subscriber* other = g_subscriber.load(std::memory_order_acquire)) {
    g_holder = other->name;
    *holder = g_holder.c_str();
    return nullptr;
  }
  auto* subscriber =
      new Subscriber{callback, userdata, {}};  // leaked: callbacks may still be running with it
  std::strncpy(subscriber->name, name, sizeof subscriber->name - 1);
  g_subscriber.store(subscriber, std::memory_order_release);
  g_once.insert(subscriber);
  return subscriber;
}

bool drop_subscriber(Subscriber* subscriber) {
  const std::lock_guard lock(g_subscriber_mutex);
  if (subscriber == nullptr || g_subscriber.load(std::memory_order_acquire) != subscriber)
    return g_once.contains(subscriber);  // a handle of before a finalize: success, and nothing happens
  // On a GPU the program grows by what CUPTI copies for it (tests/gpu/attach_bare.py).
  if (callback_enabled(kDomainResource, kResourceModuleProfiled)) log_call("left_module_profiled", kSuccess);
  g_subscriber.store(nullptr, std::memory_order_release);
  reset_callbacks();
  return true;
}

void forget_subscriber() {
  const std::lock_guard lock(g_subscriber_mutex);
  g_subscriber.store(nullptr, std::memory_order_release);
  reset_callbacks();
}

bool is_subscriber(const void* handle) {
  return handle != nullptr && handle == g_subscriber.load(std::memory_order_acquire);
}

bool enable_callback(std::uint32_t domain, std::uint32_t cbid, bool enable) {
  if (domain == 0 || domain >= kDomains || cbid == 0 || cbid >= kCbids) return false;
  g_enabled[domain][cbid].store(enable ? 1 : 0, std::memory_order_release);
  return true;
}

bool enable_domain(std::uint32_t domain, bool enable) {
  if (domain == 0 || domain >= kDomains) return false;
  for (auto& cbid : g_enabled[domain]) cbid.store(enable ? 1 : 0, std::memory_order_release);
  return true;
}

bool callback_enabled(std::uint32_t domain, std::uint32_t cbid) {
  return domain < kDomains && cbid < kCbids && g_enabled[domain][cbid].load(std::memory_order_acquire) != 0;
}

void reset_callbacks() {
  for (std::uint32_t domain = 1; domain < kDomains; ++domain) enable_domain(domain, false);
}

void dispatch_enter(simgpu_call* call) {
  const CallbackData data = callback_data(call, kApiEnter);
  call->entered = 1;
  const AtEnter at_enter;
  call_back(kDomainDriverApi, call->cbid, &data);
}

void dispatch_exit(simgpu_call* call) {
  const CallbackData data = callback_data(call, kApiExit);
  ++t_exit_callbacks;
  call_back(kDomainDriverApi, call->cbid, &data);
  --t_exit_callbacks;
}

void dispatch_module_profiled(const simgpu_call& call) {
  simgpu_module_bytes bytes{};
  if (driver()->module_of(call.module, &bytes) == 0) return;
  thread_local std::string scratch;
  const ModuleResourceData module = module_data(bytes, &scratch);
  const ResourceData data{call.context, nullptr, const_cast<ModuleResourceData*>(&module)};
  call_back(kDomainResource, kResourceModuleProfiled, &data);
  spoil(&scratch);
}

void dispatch_resource(std::uint32_t cbid, CUcontext context, CUstream stream, const void* descriptor) {
  if (!callback_enabled(kDomainResource, cbid)) return;
  ResourceData data{context, stream, const_cast<void*>(descriptor)};
  if (cbid != kResourceModuleLoaded && cbid != kResourceModuleUnloadStarting) {
    call_back(kDomainResource, cbid, &data);
    return;
  }
  std::string scratch;
  ModuleResourceData module = module_data(*static_cast<const simgpu_module_bytes*>(descriptor), &scratch);
  data.resource_descriptor = &module;
  call_back(kDomainResource, cbid, &data);
  spoil(&scratch);
}

void dispatch_state(std::uint32_t cbid, Result result, const char* message) {
  if (!callback_enabled(kDomainState, cbid)) return;
  const StateData data{result, message};
  call_back(kDomainState, cbid, &data);
}

bool inside_exit_callback() { return t_exit_callbacks > 0; }

}  // namespace simgpu
