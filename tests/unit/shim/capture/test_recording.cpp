// SPDX-License-Identifier: Apache-2.0
#include <signal.h>
#include <sys/prctl.h>

#include <catch2/catch_test_macros.hpp>
#include <cstring>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "../control/shared_region.h"
#include "activity_buffers.h"
#include "activity_recorder.h"
#include "capture_session.h"
#include "launch_recorder.h"
#include "system_calls.h"

using namespace pillion;
using namespace pillion::shim;
using pillion::shim::test::SharedRegion;

namespace {

using Bytes = std::vector<std::uint8_t>;

template <typename T>
T as(const Bytes& bytes) {
  T value{};
  REQUIRE(bytes.size() >= sizeof(T));
  std::memcpy(&value, bytes.data(), sizeof(T));
  return value;
}

cupti::Result walk_records(std::uint8_t* buffer, std::size_t valid, std::uint8_t** record) {
  // Kernel records of CUDA 13.0 only, one after the other.
  std::uint8_t* next = *record == nullptr ? buffer : *record + 216;
  if (next + 216 > buffer + valid) return cupti::kErrorMaxLimitReached;
  *record = next;
  return cupti::kSuccess;
}

std::size_t g_dropped = 0;
int g_flushes = 0;

// A session as capture_arm() makes it, without a CUPTI.
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

void make_callback(const Call& call, cupti::ApiCallbackSite site) {
  const std::uint64_t parameters[4] = {call.function, call.function + 1, 0, 0};
  std::uint32_t result = call.result;
  cupti::CallbackData data{};
  data.callback_site = site;
  data.function_params = parameters;
  data.function_return_value = &result;
  data.correlation_id = call.correlation;
  subscriber_callback(nullptr, cupti::kDomainDriverApi, call.cbid, &data);
}

[[gnu::noinline]] void launch(const Call& call) {
  make_callback(call, cupti::kApiEnter);
  make_callback(call, cupti::kApiExit);
}

// Buffers with kernel records as CUPTI 13.0 writes them.
std::size_t fill_kernels(std::uint8_t* buffer, std::uint32_t count, const char* name) {
  for (std::uint32_t i = 0; i < count; ++i) {
    std::uint8_t* record = buffer + std::size_t{i} * 216;
    const std::uint32_t kind = cupti::kActivityConcurrentKernel;
    const std::uint32_t correlation = 100 + i;
    const std::uint64_t start = 1000 + i;
    const std::uint64_t end = start + 50;
    std::memcpy(record, &kind, 4);
    std::memcpy(record + 16, &start, 8);
    std::memcpy(record + 24, &end, 8);
    std::memcpy(record + 92, &correlation, 4);
    std::memcpy(record + 104, &name, 8);
  }
  return std::size_t{count} * 216;
}

}  // namespace

TEST_CASE("a launch gives one record, a thread record before it and a first snapshot") {
  TestSession test;
  prctl(PR_SET_NAME, "launcher");
  const std::uint64_t before = monotonic_ns();
  launch({307, 11, 0xabcd, 0});
  auto records = test.drain();
  REQUIRE(records[PILLION_RECORD_LAUNCH].size() == 1);
  const auto record = as<pillion_launch>(records[PILLION_RECORD_LAUNCH][0]);
  CHECK(record.correlation == 11);
  CHECK(record.tid == this_tid());
  CHECK(record.function == 0xabcd);
  CHECK(record.cbid == 307);
  CHECK(record.kind == PILLION_LAUNCH_KERNEL);
  CHECK(record.flags == PILLION_LAUNCH_SNAPSHOT);
  CHECK(record.time_ns >= before);
  CHECK(record.time_ns <= monotonic_ns());
  REQUIRE(records[PILLION_RECORD_SNAPSHOT].size() == 1);
  const auto snapshot = as<pillion_snapshot>(records[PILLION_RECORD_SNAPSHOT][0]);
  CHECK(snapshot.correlation == 11);
  CHECK(snapshot.context_key == record.context_key);
  REQUIRE(records[PILLION_RECORD_THREAD].size() == 1);
  const auto thread = as<pillion_thread>(records[PILLION_RECORD_THREAD][0]);
  CHECK(thread.tid == this_tid());
  CHECK(std::string(thread.comm) == "launcher");
  CHECK(thread.stack_low < reinterpret_cast<std::uint64_t>(&record));
  CHECK(thread.stack_high > reinterpret_cast<std::uint64_t>(&record));
  CHECK(test.counter(&pillion_counters::launches) == 1);
  CHECK(test.counter(&pillion_counters::snapshots) == 1);
}

TEST_CASE("the same launch again has the same key and no first snapshot") {
  TestSession test;
  std::set<std::uint64_t> keys;
  for (std::uint32_t i = 1; i <= 5; ++i) launch({307, i, 0xabcd, 0});
  auto records = test.drain();
  REQUIRE(records[PILLION_RECORD_LAUNCH].size() == 5);
  for (const Bytes& bytes : records[PILLION_RECORD_LAUNCH])
    keys.insert(as<pillion_launch>(bytes).context_key);
  CHECK(keys.size() == 1);
  CHECK(records[PILLION_RECORD_THREAD].size() == 1);
  CHECK(records[PILLION_RECORD_SNAPSHOT].size() <= 2);  // the first, and perhaps a random one
}

TEST_CASE("kinds and handles by callback id") {
  TestSession test;
  launch({652, 1, 0x10, 0});  // cuLaunchKernelEx: the function is the second parameter
  launch({514, 2, 0x20, 0});  // cuGraphLaunch
  launch({277, 3, 0x30, 0});  // cuMemcpyHtoDAsync_v2
  launch({249, 4, 0x40, 0});  // cuMemsetD8_v2
  launch({527, 5, 0x50, 0});  // cuLaunchHostFunc
  launch({1, 6, 0x60, 0});    // cuInit: not ours
  auto records = test.drain();
  REQUIRE(records[PILLION_RECORD_LAUNCH].size() == 5);
  const auto at = [&](std::size_t i) { return as<pillion_launch>(records[PILLION_RECORD_LAUNCH][i]); };
  CHECK((at(0).kind == PILLION_LAUNCH_KERNEL && at(0).function == 0x11));
  CHECK((at(1).kind == PILLION_LAUNCH_GRAPH && at(1).function == 0x20));
  CHECK((at(2).kind == PILLION_LAUNCH_COPY && at(2).function == 0));
  CHECK((at(3).kind == PILLION_LAUNCH_SET && at(3).function == 0));
  CHECK((at(4).kind == PILLION_LAUNCH_HOST && at(4).function == 0x51));
}

TEST_CASE("a host function has a record and no stack") {
  TestSession test;
  launch({527, 1, 0x50, 0});
  auto records = test.drain();
  CHECK(records[PILLION_RECORD_LAUNCH].size() == 1);
  CHECK(records[PILLION_RECORD_SNAPSHOT].empty());
}

TEST_CASE("before a context ends CUPTI is asked for all it has") {
  TestSession test;
  launch({322, 1, 0, 0});
  CHECK(g_flushes == 1);
  CHECK(test.drain().empty());
}

TEST_CASE("a call that failed says so") {
  TestSession test;
  launch({307, 21, 1, 0});
  launch({307, 22, 1, 719});
  auto records = test.drain();
  REQUIRE(records[PILLION_RECORD_LAUNCH_FAILED].size() == 1);
  const auto failed = as<pillion_launch_failed>(records[PILLION_RECORD_LAUNCH_FAILED][0]);
  CHECK(failed.correlation == 22);
  CHECK(failed.result == 719);
  CHECK(test.counter(&pillion_counters::launches) == 2);
  CHECK(test.counter(&pillion_counters::launches_failed) == 1);
}

TEST_CASE("every launch is a record or a counted drop") {
  TestSession test(4096);
  test.session().stacks_wanted = false;
  for (std::uint32_t i = 0; i < 500; ++i) launch({307, i, 1, 0});
  const auto records = test.drain();
  const std::uint64_t pushed = records.at(PILLION_RECORD_LAUNCH).size();
  CHECK(pushed < 500);
  CHECK(test.counter(&pillion_counters::launches) == 500);
  CHECK(pushed + test.counter(&pillion_counters::launches_dropped_full) +
            test.counter(&pillion_counters::launches_dropped_busy) ==
        500);
}

TEST_CASE("a thread record that found no room comes with a later launch") {
  TestSession test(4096);
  test.session().stacks_wanted = false;
  for (std::uint32_t i = 0; i < 100; ++i) launch({307, i, 1, 0});  // this thread fills the ring
  std::thread([&] {
    launch({307, 1000, 1, 0});
    CHECK(test.counter(&pillion_counters::other_dropped) == 1);
    (void)test.drain();
    launch({307, 1001, 1, 0});
    CHECK(test.drain()[PILLION_RECORD_THREAD].size() == 1);
  }).join();
}

TEST_CASE("without a session nothing is touched") {
  g_session = nullptr;
  launch({307, 1, 1, 0});
  SUCCEED();
}

TEST_CASE("a callback that is late by a session writes nothing into the next") {
  TestSession test;
  test.session().number = 0;  // ended: between the callback's look at g_session and its push
  launch({307, 1, 1, 0});
  CHECK(test.drain().empty());
  CHECK(test.counter(&pillion_counters::launches) == 0);
}

TEST_CASE("a launch keeps errno") {
  TestSession test;
  std::thread([&] {
    errno = 4711;
    launch({307, 1, 1, 0});
    CHECK(errno == 4711);
  }).join();
}

TEST_CASE("the handlers' time is accounted for") {
  TestSession test;
  for (std::uint32_t i = 0; i < 6400; ++i) launch({307, i, 1, 0});
  (void)test.drain();
  const std::uint64_t calls = test.counter(&pillion_counters::handler_calls);
  CHECK(calls > 6000);
  CHECK(calls < 6800);
  CHECK(test.counter(&pillion_counters::handler_ns) > 0);
  CHECK(test.counter(&pillion_counters::handler_ns) >= test.counter(&pillion_counters::snapshot_ns));
}

TEST_CASE("a fatal error of CUPTI is noticed") {
  forget_cupti_loss();
  cupti::StateData state{999, "gone"};
  subscriber_callback(nullptr, cupti::kDomainState, cupti::kStateWarning, &state);
  CHECK_FALSE(cupti_is_lost());
  subscriber_callback(nullptr, cupti::kDomainState, cupti::kStateFatalError, &state);
  CHECK(cupti_is_lost());
  forget_cupti_loss();
}

TEST_CASE("a completed buffer becomes records, with its name sent once") {
  TestSession test;
  std::string name = "_Z4axpyPfS_i";
  for (int round = 0; round < 2; ++round) {
    std::uint8_t* buffer = nullptr;
    std::size_t size = 0;
    std::size_t max_records = 1;
    buffer_requested(&buffer, &size, &max_records);
    REQUIRE(buffer != nullptr);
    CHECK(max_records == 0);
    for (std::size_t i = 0; i < size; ++i) REQUIRE(buffer[i] == 0);
    const std::size_t valid = fill_kernels(buffer, 100, name.c_str());
    g_dropped = round == 0 ? 7 : 0;
    buffer_completed(nullptr, 0, buffer, size, valid);
  }
  name.assign(name.size(), 'x');  // CUPTI's string is gone
  auto records = test.drain();
  REQUIRE(records[PILLION_RECORD_KERNEL].size() == 200);
  REQUIRE(records[PILLION_RECORD_NAME].size() == 1);
  const auto name_record = as<pillion_name>(records[PILLION_RECORD_NAME][0]);
  CHECK(
      std::string(reinterpret_cast<const char*>(records[PILLION_RECORD_NAME][0].data()) + sizeof(name_record),
                  name_record.length) == "_Z4axpyPfS_i");
  std::uint64_t gpu_ns = 0;
  for (const Bytes& bytes : records[PILLION_RECORD_KERNEL]) {
    const auto kernel = as<pillion_kernel>(bytes);
    CHECK(kernel.name == name_record.id);
    gpu_ns += kernel.end_ns - kernel.start_ns;
  }
  CHECK(gpu_ns == 200 * 50);
  CHECK(test.counter(&pillion_counters::executions) == 200);
  CHECK(test.counter(&pillion_counters::cupti_dropped) == 7);
}

TEST_CASE("executions that find no room are counted") {
  TestSession test(4096);
  std::uint8_t* buffer = nullptr;
  std::size_t size = 0;
  std::size_t max_records = 0;
  buffer_requested(&buffer, &size, &max_records);
  buffer_completed(nullptr, 0, buffer, size, fill_kernels(buffer, 1000, nullptr));
  auto records = test.drain();
  CHECK(records[PILLION_RECORD_KERNEL].size() + test.counter(&pillion_counters::executions_dropped_full) ==
        1000);
  CHECK(test.counter(&pillion_counters::executions) == 1000);
}

TEST_CASE("somebody else's buffer is neither read nor freed") {
  TestSession test;
  std::vector<std::uint8_t> foreign(4096);
  const std::size_t valid = fill_kernels(foreign.data(), 10, nullptr);
  const std::vector<std::uint8_t> before = foreign;
  buffer_completed(nullptr, 0, foreign.data(), foreign.size(), valid);
  CHECK(foreign == before);
  CHECK(test.drain()[PILLION_RECORD_KERNEL].empty());
  CHECK(test.counter(&pillion_counters::foreign_buffers) == 1);
}

TEST_CASE("after the session buffers are taken back and nothing is written") {
  std::uint8_t* buffer = nullptr;
  std::size_t size = 0;
  std::size_t max_records = 0;
  {
    TestSession test;
    buffer_requested(&buffer, &size, &max_records);
    g_session = nullptr;
    CHECK(activity_quiesce(100));
    buffer_completed(nullptr, 0, buffer, size, fill_kernels(buffer, 10, nullptr));
    CHECK(test.drain().empty());
    CHECK(test.counter(&pillion_counters::executions) == 0);
  }
  std::uint8_t* again = nullptr;
  buffer_requested(&again, &size, &max_records);
  CHECK(again == buffer);
  CHECK(again[0] == 0);
  buffer_completed(nullptr, 0, again, size, 0);
}

TEST_CASE("buffers are distinct, zeroed when they come back, and bounded") {
  auto buffers = std::make_unique<ActivityBuffers>();
  REQUIRE(buffers->begin());
  std::set<std::uint8_t*> taken;
  while (std::uint8_t* buffer = buffers->take()) {
    CHECK(taken.insert(buffer).second);
    REQUIRE(taken.size() <= ActivityBuffers::kBuffersMax);
  }
  CHECK(taken.size() >= 16);
  std::uint8_t* one = *taken.begin();
  CHECK(buffers->owns(one));
  CHECK_FALSE(buffers->owns(one + 8));
  int elsewhere = 0;
  CHECK_FALSE(buffers->owns(reinterpret_cast<std::uint8_t*>(&elsewhere)));
  std::memset(one, 0xff, 5000);
  CHECK(buffers->give_back(one, 5000));
  CHECK_FALSE(buffers->give_back(one, 0));
  CHECK(buffers->take() == one);
  CHECK(one[0] == 0);
  CHECK(one[4999] == 0);
  buffers->reclaim_all();
  CHECK(buffers->out() == 0);
}

namespace {

void launch_in_signal(int) { launch({307, 777, 1, 0}); }

}  // namespace

TEST_CASE("threads launch at once, every record arrives whole") {
  TestSession test(4 << 20);
  constexpr std::uint32_t kThreads = 4;
  constexpr std::uint32_t kLaunches = 5000;
  std::vector<std::thread> threads;
  for (std::uint32_t t = 0; t < kThreads; ++t) {
    threads.emplace_back([t] {
      for (std::uint32_t i = 0; i < kLaunches; ++i) launch({307, t * kLaunches + i, 0x1000 + i % 7, 0});
    });
  }
  for (std::thread& thread : threads) thread.join();
  auto records = test.drain();
  std::set<std::uint32_t> correlations;
  for (const Bytes& bytes : records[PILLION_RECORD_LAUNCH]) {
    correlations.insert(as<pillion_launch>(bytes).correlation);
  }
  CHECK(correlations.size() == records[PILLION_RECORD_LAUNCH].size());
  CHECK(correlations.size() + test.counter(&pillion_counters::launches_dropped_busy) +
            test.counter(&pillion_counters::launches_dropped_full) ==
        kThreads * kLaunches);
  CHECK(test.counter(&pillion_counters::launches) == kThreads * kLaunches);
}

TEST_CASE("a launch in a signal handler on a signal stack is recorded and marked") {
  TestSession test;
  std::vector<std::uint8_t> memory(64 * 1024);
  std::thread([&] {
    stack_t stack{};
    stack.ss_sp = memory.data();
    stack.ss_size = memory.size();
    REQUIRE(sigaltstack(&stack, nullptr) == 0);
    struct sigaction action {};
    struct sigaction old {};
    action.sa_handler = launch_in_signal;
    action.sa_flags = SA_ONSTACK;
    REQUIRE(sigaction(SIGUSR1, &action, &old) == 0);
    pthread_kill(pthread_self(), SIGUSR1);
    sigaction(SIGUSR1, &old, nullptr);
    stack.ss_flags = SS_DISABLE;
    sigaltstack(&stack, nullptr);
  }).join();
  auto records = test.drain();
  REQUIRE(records[PILLION_RECORD_LAUNCH].size() == 1);
  REQUIRE(records[PILLION_RECORD_SNAPSHOT].size() == 1);
  CHECK((as<pillion_snapshot>(records[PILLION_RECORD_SNAPSHOT][0]).flags & PILLION_SNAPSHOT_FOREIGN) != 0);
}
