// SPDX-License-Identifier: Apache-2.0
#include "client.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <thread>

#include "cupti_functions.h"

using namespace pillion::cupti;

#ifdef __SANITIZE_ADDRESS__
// Programs leave their GPU memory, streams and graphs to the driver when they end, and the double has them
// from malloc.
extern "C" const char* __lsan_default_options() { return "detect_leaks=0"; }
#endif

namespace {

constexpr std::size_t kBufferBytes = 64 * 1024;
std::set<std::uint8_t*> g_out;  // under client().mutex
std::thread::id g_completing;
thread_local bool t_in_call = false;  // between ENTER and EXIT
std::uint64_t g_attached_ns = 0;

std::uint64_t monotonic() {
  timespec ts{};
  clock_gettime(CLOCK_MONOTONIC, &ts);
  return static_cast<std::uint64_t>(ts.tv_sec) * 1'000'000'000u + static_cast<std::uint64_t>(ts.tv_nsec);
}

void on_driver_call(std::uint32_t cbid, const CallbackData& data) {
  Client& c = client();
  t_in_call = data.callback_site == kApiEnter;
  if (data.callback_site == kApiEnter) {
    ++c.enters;
    *data.correlation_data = data.correlation_id * std::uint64_t{7} + 1;
    const std::lock_guard lock(c.mutex);
    c.cbids[cbid] += 1;
    c.launch_correlations.insert(data.correlation_id);
    if (data.symbol_name != nullptr) c.symbol = data.symbol_name;
    return;
  }
  ++c.exits;
  if (*data.correlation_data != data.correlation_id * std::uint64_t{7} + 1) ++c.mismatched;
  if (*static_cast<const CUresult*>(data.function_return_value) != CUDA_SUCCESS) ++c.failed;
}

void on_resource(std::uint32_t cbid, const ResourceData& data) {
  Client& c = client();
  const std::lock_guard lock(c.mutex);
  c.resources[cbid] += 1;
  if (cbid != kResourceModuleLoaded && cbid != kResourceModuleProfiled) return;
  const auto& module = *static_cast<const ModuleResourceData*>(data.resource_descriptor);
  if (c.modules.size() < 4) c.modules.emplace_back(module.cubin, module.cubin_size);
}

void on_callback(void*, CallbackDomain domain, std::uint32_t cbid, const void* data) {
  if (domain == kDomainDriverApi) on_driver_call(cbid, *static_cast<const CallbackData*>(data));
  if (domain == kDomainResource) on_resource(cbid, *static_cast<const ResourceData*>(data));
}

void on_request(std::uint8_t** buffer, std::size_t* size, std::size_t* max_records) {
  *size = kBufferBytes;
  *max_records = 0;
  *buffer = static_cast<std::uint8_t*>(std::aligned_alloc(8, kBufferBytes));
  const std::lock_guard lock(client().mutex);
  g_out.insert(*buffer);
}

template <class T>
T field(const std::uint8_t* record, std::size_t offset) {
  T value;
  std::memcpy(&value, record + offset, sizeof value);
  return value;
}

// Kernels, copies and sets: start 16, end 24.
void take_execution(const std::uint8_t* record, std::uint32_t kind) {
  Client& c = client();
  const auto start = field<std::uint64_t>(record, 16);
  const auto end = field<std::uint64_t>(record, 24);
  const bool kernel = kind == kActivityConcurrentKernel;
  const auto correlation = field<std::uint32_t>(record, kernel ? 92 : kind == kActivityMemcpy2 ? 60 : 44);
  const auto node = field<std::uint64_t>(record, kernel ? 144 : kind == kActivityMemcpy2 ? 72 : 64);
  if (!kernel) c.bytes[kind] += field<std::uint64_t>(record, 8);
  if (c.launch_correlations.count(correlation) == 0) c.unmatched += 1;
  if (node != 0) c.nodes.insert(node);
  if (correlation < c.last_correlation) c.disordered += 1;
  c.last_correlation = correlation;
  if (start == 0 || end < start) {
    c.zero_stamps += 1;
    return;
  }
  if (start < g_attached_ns || end > monotonic()) c.outside += 1;
  c.ns += end - start;
}

void on_completed(void*, std::uint32_t, std::uint8_t* buffer, std::size_t, std::size_t valid) {
  Client& c = client();
  const std::lock_guard lock(c.mutex);
  c.completions_on_own_thread += t_in_call ? 1 : 0;
  if (g_out.erase(buffer) == 0) {
    c.foreign_buffers += 1;
    return;  // not ours: neither read nor freed
  }
  std::uint8_t* record = nullptr;
  std::uint8_t* previous = nullptr;
  while (cuptiActivityGetNextRecord(buffer, valid, &record) == kSuccess) {
    const auto kind = field<std::uint32_t>(record, 0);
    if (previous != nullptr) {
      c.sizes[field<std::uint32_t>(previous, 0)] = static_cast<std::size_t>(record - previous);
    }
    previous = record;
    c.records[kind] += 1;
    if (kind == kActivityConcurrentKernel || kind == kActivityMemcpy || kind == kActivityMemset ||
        kind == kActivityMemcpy2) {
      take_execution(record, kind);
    }
  }
  if (previous != nullptr) {
    c.sizes[field<std::uint32_t>(previous, 0)] = static_cast<std::size_t>(buffer + valid - previous);
  }
  std::free(buffer);
}

Result first_error(std::initializer_list<Result> results) {
  for (const Result result : results) {
    if (result != kSuccess) return result;
  }
  return kSuccess;
}

}  // namespace

Client& client() {
  static auto* instance = new Client;  // the library's worker may still call when statics are gone
  return *instance;
}

Result Client::subscribe() {
  g_attached_ns = monotonic();
  return cuptiSubscribe(&subscriber, on_callback, nullptr);
}

Result Client::enable(bool kernels_only) {
  static bool registered = false;  // the timestamp callback: once per process
  if (!registered) {
    if (const Result result = cuptiActivityRegisterTimestampCallback(monotonic); result != kSuccess)
      return result;
    registered = true;
  }
  Result result = first_error({cuptiActivityRegisterCallbacks(on_request, on_completed),
                               cuptiActivityEnable(kActivityConcurrentKernel)});
  if (!kernels_only) {
    result = first_error({result, cuptiActivityEnable(kActivityMemcpy), cuptiActivityEnable(kActivityMemset),
                          cuptiActivityEnable(kActivityMemcpy2)});
  }
  for (const std::uint32_t cbid : {307u, 442u, 477u, 514u, 527u, 652u, 249u, 251u, 216u, 220u, 276u, 277u,
                                   278u, 279u, 280u, 281u, 318u, 319u}) {
    result = first_error({result, cuptiEnableCallback(1, subscriber, kDomainDriverApi, cbid)});
  }
  return first_error({result, cuptiEnableDomain(1, subscriber, kDomainResource),
                      cuptiEnableDomain(1, subscriber, kDomainState)});
}

Result Client::attach() { return first_error({subscribe(), enable()}); }

std::uint64_t Client::buffers_out() const { return g_out.size(); }

void fail_if_error(CUresult result, const char* call) {
  if (result == CUDA_SUCCESS) return;
  std::fprintf(stderr, "%s: %d\n", call, result);
  std::exit(1);
}
