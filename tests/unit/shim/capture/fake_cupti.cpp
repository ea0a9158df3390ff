// SPDX-License-Identifier: Apache-2.0
#include "fake_cupti.h"

#include <cstring>

#include "system_calls.h"

namespace pillion::shim::test {

namespace {

FakeCupti* g_fake = nullptr;  // the functions of CUPTI's table have no argument that could carry it
int g_subscriber = 0;

}  // namespace

struct FakeCalls {
  static cupti::Result note(const std::string& call) { return g_fake->note(call); }

  static cupti::Result subscribe(cupti::Subscriber* out, cupti::CallbackFunc, void*) {
    *out = &g_subscriber;
    return note("subscribe");
  }
  static cupti::Result subscribe_v2(cupti::Subscriber* out, cupti::CallbackFunc, void*,
                                    cupti::SubscriberParams* params) {
    *out = &g_subscriber;
    std::strncpy(params->old_subscriber_name, g_fake->holder_.c_str(), params->old_subscriber_size - 1);
    return note("subscribe_v2");
  }
  static cupti::Result unsubscribe(cupti::Subscriber) { return note("unsubscribe"); }
  static cupti::Result enable_callback(std::uint32_t enable, cupti::Subscriber, cupti::CallbackDomain domain,
                                       std::uint32_t cbid) {
    const char* verb = enable != 0 ? "callback " : "callback off ";
    return note(verb + std::to_string(domain) + "/" + std::to_string(cbid));
  }
  static cupti::Result register_callbacks(cupti::BufferRequestedFunc, cupti::BufferCompletedFunc) {
    return note("register_callbacks");
  }
  static cupti::Result register_timestamp(cupti::TimestampFunc) { return note("register_timestamp"); }
  static cupti::Result get_timestamp(std::uint64_t* stamp) {
    *stamp = g_fake->monotonic_ ? monotonic_ns() : 1'700'000'000'000'000'000u;
    return cupti::kSuccess;
  }
  static cupti::Result enable(cupti::ActivityKind kind) { return note("enable " + std::to_string(kind)); }
  static cupti::Result dump(cupti::ActivityKind kind) { return note("dump " + std::to_string(kind)); }
  static cupti::Result disable(cupti::ActivityKind kind) { return note("disable " + std::to_string(kind)); }
  static cupti::Result flush(std::uint32_t flag) { return note("flush " + std::to_string(flag)); }
  static cupti::Result finalize() { return note("finalize"); }
  static cupti::Result set_attribute(cupti::ActivityAttribute attribute, std::size_t*, void*) {
    return note("attribute " + std::to_string(attribute));
  }
  static cupti::Result set_thread_id(cupti::ThreadIdType type) {
    return note("thread_id " + std::to_string(type));
  }
  static cupti::Result next_record(std::uint8_t*, std::size_t, std::uint8_t**) {
    return cupti::kErrorMaxLimitReached;
  }
};

FakeCupti::FakeCupti() {
  g_fake = this;
  api.subscribe = FakeCalls::subscribe;
  api.subscribe_v2 = FakeCalls::subscribe_v2;
  api.unsubscribe = FakeCalls::unsubscribe;
  api.enable_callback = FakeCalls::enable_callback;
  api.register_callbacks = FakeCalls::register_callbacks;
  api.register_timestamp = FakeCalls::register_timestamp;
  api.get_timestamp = FakeCalls::get_timestamp;
  api.activity_enable = FakeCalls::enable;
  api.enable_and_dump = FakeCalls::dump;
  api.activity_disable = FakeCalls::disable;
  api.flush_all = FakeCalls::flush;
  api.finalize = FakeCalls::finalize;
  api.set_attribute = FakeCalls::set_attribute;
  api.set_thread_id_type = FakeCalls::set_thread_id;
  api.next_record = FakeCalls::next_record;
  api.version = 130001;
  api.layout = record_layout(130001);
}

FakeCupti::~FakeCupti() { g_fake = nullptr; }

void FakeCupti::fail(const std::string& call, cupti::Result result) { failures_.emplace_back(call, result); }

cupti::Result FakeCupti::note(const std::string& call) {
  const std::lock_guard lock(mutex_);
  calls_.push_back(call);
  for (const auto& [name, result] : failures_) {
    if (name == call) return result;
  }
  return cupti::kSuccess;
}

std::vector<std::string> FakeCupti::calls() const {
  const std::lock_guard lock(mutex_);
  return calls_;
}

int FakeCupti::count(const std::string& call) const {
  int total = 0;
  for (const std::string& one : calls()) total += one == call ? 1 : 0;
  return total;
}

int FakeCupti::place(const std::string& call) const {
  const auto all = calls();
  for (std::size_t at = 0; at < all.size(); ++at) {
    if (all[at] == call) return static_cast<int>(at);
  }
  return -1;
}

}  // namespace pillion::shim::test
