// SPDX-License-Identifier: Apache-2.0
#include <catch2/catch_test_macros.hpp>
#include <cstring>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "activity_buffers.h"
#include "test_session.h"

using namespace pillion;
using namespace pillion::shim;
using namespace pillion::shim::test;

namespace {

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
  buffers->unmap(buffers->withdraw());
  REQUIRE(buffers->begin());
  CHECK(buffers->out() == 0);
}

namespace {

// Two context records as CUPTI 13.0 writes them, in the steps of walk_records(): context 1 on device 0,
// context 2 on device 3.
std::size_t fill_contexts(std::uint8_t* buffer) {
  constexpr std::uint32_t kRecords[2][3] = {{cupti::kActivityContext, 1, 0}, {cupti::kActivityContext, 2, 3}};
  for (std::size_t i = 0; i < 2; ++i) std::memcpy(buffer + i * 216, kRecords[i], sizeof(kRecords[i]));
  return 2 * std::size_t{216};
}

}  // namespace

TEST_CASE("contexts are told of, and again once there is room") {
  TestSession test(4096);
  const auto complete = [](auto fill) {
    std::uint8_t* buffer = nullptr;
    std::size_t size = 0;
    std::size_t max_records = 0;
    buffer_requested(&buffer, &size, &max_records);
    REQUIRE(buffer != nullptr);
    buffer_completed(nullptr, 0, buffer, size, fill(buffer));
  };
  complete(fill_contexts);
  auto records = test.drain();
  REQUIRE(records[PILLION_RECORD_CONTEXT].size() == 2);
  CHECK(as<pillion_context>(records[PILLION_RECORD_CONTEXT][1]).context == 2);
  CHECK(as<pillion_context>(records[PILLION_RECORD_CONTEXT][1]).device == 3);
  CHECK(test.counter(&pillion_counters::executions) == 0);

  complete([](std::uint8_t* buffer) { return fill_kernels(buffer, 1000, nullptr); });
  for (std::uint8_t filler[8] = {99, 0, 0, 0, 8, 0, 0, 0};
       test.session().events->push(1, filler, sizeof(filler)) == PushResult::ok;) {
  }
  complete(fill_contexts);  // the rings are full to the last byte
  CHECK(test.drain()[PILLION_RECORD_CONTEXT].empty());
  activity_retry(test.session(), 1);
  CHECK(test.drain()[PILLION_RECORD_CONTEXT].size() == 2);
  activity_retry(test.session(), 1);
  CHECK(test.drain()[PILLION_RECORD_CONTEXT].empty());
}
