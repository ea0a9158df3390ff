// SPDX-License-Identifier: Apache-2.0
// A capture session as arming makes it, over rings of the test's own, without a CUPTI.
#pragma once

#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <vector>

#include <catch2/catch_test_macros.hpp>

#include "../control/shared_region.h"
#include "activity_recorder.h"
#include "capture_session.h"
#include "launch_recorder.h"

namespace pillion::shim::test {

using Bytes = std::vector<std::uint8_t>;

template <typename T>
T as(const Bytes& bytes) {
  T value{};
  REQUIRE(bytes.size() >= sizeof(T));
  std::memcpy(&value, bytes.data(), sizeof(T));
  return value;
}

inline cupti::Result walk_records(std::uint8_t* buffer, std::size_t valid, std::uint8_t** record) {
  // Kernel records of CUDA 13.0 only, one after the other.
  std::uint8_t* next = *record == nullptr ? buffer : *record + 216;
  if (next + 216 > buffer + valid) return cupti::kErrorMaxLimitReached;
  *record = next;
  return cupti::kSuccess;
}

// What the next look at CUPTI's dropped records finds, and how often it was asked for all it has.
inline std::size_t g_dropped = 0;
inline int g_flushes = 0;

class TestSession {
 public:
  explicit TestSession(std::uint32_t event_bytes = 1 << 20, std::uint32_t number = ++last_number())
      : events_({PILLION_REGION_EVENTS, 1, 1, event_bytes}), stacks_({PILLION_REGION_STACKS, 1, 1, 2 << 20}) {
    event_set_->open(events_.base(), events_.header());
    stack_set_->open(stacks_.base(), stacks_.header());
    api_.version = 130001;
    api_.layout = record_layout(130001);
    api_.next_record = walk_records;
    api_.dropped_records = +[](void*, std::uint32_t, std::size_t* dropped) -> cupti::Result {
      *dropped = g_dropped;
      g_dropped = 0;
      return cupti::kSuccess;
    };
    g_flushes = 0;
    api_.flush_all = +[](std::uint32_t flag) -> cupti::Result {
      g_flushes += flag == cupti::kFlushForced ? 1 : 0;
      return cupti::kSuccess;
    };
    REQUIRE(activity_begin(130001));
    g_sampler.begin({100, 64, 196608});
    g_sync_sampler.begin({100, 64, 196608});
    session_.events = event_set_.get();
    session_.stacks = stack_set_.get();
    session_.counters = counters_;
    session_.api = &api_;
    session_.stack_bytes_max = 192 * 1024;
    session_.stacks_wanted = true;
    session_.tick = 1;
    session_.number = number;
    g_session = &session_;
  }
  ~TestSession() {
    g_session = nullptr;
    (void)event_set_->close(100);
    (void)stack_set_->close(100);
  }

  std::map<std::uint16_t, std::vector<Bytes>> drain() {
    std::map<std::uint16_t, std::vector<Bytes>> by_type;
    for (SharedRegion* region : {&events_, &stacks_}) {
      for (auto& record : region->drain(0)) by_type[as<pillion_record_header>(record).type].push_back(record);
    }
    return by_type;
  }

  std::uint64_t counter(std::uint64_t pillion_counters::*field) {
    add_recorded_launches(session_);
    std::uint64_t total = 0;
    for (const pillion_counters& shard : counters_) total += shard.*field;
    return total;
  }

  CaptureSession& session() { return session_; }

 private:
  static std::uint32_t& last_number() {
    static std::uint32_t number = 0;
    return number;
  }

  SharedRegion events_;
  SharedRegion stacks_;
  std::unique_ptr<RingSet> event_set_ = std::make_unique<RingSet>();
  std::unique_ptr<RingSet> stack_set_ = std::make_unique<RingSet>();
  pillion_counters counters_[kCounterShards] = {};
  CuptiApi api_{};
  CaptureSession session_{};
};

struct Call {
  std::uint32_t cbid = 307;
  std::uint32_t correlation = 1;
  std::uint64_t function = 0xf00d;
  std::uint32_t result = 0;
};

// `kept`: CUPTI's word of the call, null as for a client of a library that keeps none.
inline void make_callback(const Call& call, cupti::ApiCallbackSite site, std::uint64_t* kept = nullptr) {
  const std::uint64_t parameters[4] = {call.function, call.function + 1, 0, 0};
  std::uint32_t result = call.result;
  cupti::CallbackData data{};
  data.callback_site = site;
  data.function_params = parameters;
  data.function_return_value = &result;
  data.correlation_id = call.correlation;
  data.correlation_data = kept;
  data.context_uid = 3;
  subscriber_callback(nullptr, cupti::kDomainDriverApi, call.cbid, &data);
}

[[gnu::noinline]] inline void launch(const Call& call) {
  std::uint64_t kept = 0xdead'beef;  // CUPTI does not say that it begins with anything
  make_callback(call, cupti::kApiEnter, &kept);
  make_callback(call, cupti::kApiExit, &kept);
}

}  // namespace pillion::shim::test
