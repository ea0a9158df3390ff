// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/generators/catch_generators_range.hpp>
#include <cstring>
#include <fstream>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "cupti_types.h"
#include "record_layout.h"

using namespace pillion;
using namespace pillion::shim;

namespace {

// One record of a recording: see tests/data/cupti-records/README.md.
struct Recorded {
  std::uint32_t kind;
  std::vector<std::uint8_t> bytes;
  std::string name;
};

struct Recording {
  const char* file;
  std::uint32_t api_version;
};

std::vector<Recorded> read_recording(const std::string& file) {
  std::ifstream in(std::string(PILLION_TESTS_DIR) + "/data/cupti-records/" + file, std::ios::binary);
  REQUIRE(in);
  std::vector<Recorded> records;
  std::array<std::uint32_t, 3> head{};
  while (in.read(reinterpret_cast<char*>(head.data()), sizeof(head))) {
    Recorded record{head[0], std::vector<std::uint8_t>(head[1]), std::string(head[2], '\0')};
    in.read(reinterpret_cast<char*>(record.bytes.data()), head[1]);
    in.read(record.name.data(), head[2]);
    REQUIRE(in);
    records.push_back(std::move(record));
  }
  return records;
}

const Recording kRecordings[] = {{"api18-cuda11.8.bin", 18},
                                 {"api26-cuda12.8.bin", 26},
                                 {"api28-cuda12.9.bin", 28},
                                 {"api130001-cuda13.0.bin", 130001}};

std::vector<DecodedRecord> decode_all(const std::vector<Recorded>& records, std::uint32_t api_version,
                                      std::uint16_t type) {
  const RecordLayout layout = record_layout(api_version);
  std::vector<DecodedRecord> decoded;
  for (const Recorded& record : records) {
    DecodedRecord one;
    if (decode_record(layout, record.bytes.data(), record.bytes.size(), &one) != DecodeResult::decoded)
      continue;
    if (one.header.type == type) decoded.push_back(one);
  }
  return decoded;
}

}  // namespace

TEST_CASE("the layout's sizes are those of the recorded buffers") {
  const Recording recording = GENERATE(from_range(std::begin(kRecordings), std::end(kRecordings)));
  INFO(recording.file);
  const RecordLayout layout = record_layout(recording.api_version);
  std::map<std::uint32_t, std::uint32_t> expected = {
      {cupti::kActivityConcurrentKernel, layout.kernel}, {cupti::kActivityMemcpy, layout.memcpy},
      {cupti::kActivityMemset, layout.memset},           {cupti::kActivityOverhead, layout.overhead},
      {cupti::kActivityDevice, layout.device},           {cupti::kActivityContext, layout.context}};
  std::set<std::uint32_t> seen;
  for (const Recorded& record : read_recording(recording.file)) {
    if (expected.count(record.kind) == 0) continue;
    seen.insert(record.kind);
    CHECK(record.bytes.size() == expected[record.kind]);
  }
  CHECK(seen.size() == expected.size());
}

TEST_CASE("kernels decode with their launches, shapes and graphs") {
  const Recording recording = GENERATE(from_range(std::begin(kRecordings), std::end(kRecordings)));
  INFO(recording.file);
  const auto records = read_recording(recording.file);
  const auto kernels = decode_all(records, recording.api_version, PILLION_RECORD_KERNEL);
  REQUIRE(kernels.size() == 12);
  std::set<std::uint32_t> launches;
  std::map<std::uint64_t, int> nodes;
  std::map<std::uint32_t, int> per_graph_launch;
  for (const DecodedRecord& record : kernels) {
    const pillion_kernel& kernel = record.kernel;
    CHECK(kernel.header.size == sizeof(pillion_kernel));
    CHECK(kernel.context == 1);
    CHECK(kernel.end_ns > kernel.start_ns);
    CHECK(kernel.start_ns > 1'600'000'000'000'000'000u);  // recorded with CLOCK_REALTIME
    CHECK(kernel.registers > 0);
    if (kernel.graph == 0) {
      launches.insert(kernel.correlation);
      continue;
    }
    CHECK(kernel.graph == 2);
    ++nodes[kernel.graph_node];
    ++per_graph_launch[kernel.correlation];
  }
  CHECK(launches.size() == 6);
  CHECK(nodes == std::map<std::uint64_t, int>{{2ull << 32, 3}, {(2ull << 32) | 3, 3}});
  CHECK(per_graph_launch.size() == 3);
  for (const auto& [correlation, count] : per_graph_launch) CHECK(count == 2);
}

TEST_CASE("axpy and spin keep their grids, blocks and times") {
  const Recording recording = GENERATE(from_range(std::begin(kRecordings), std::end(kRecordings)));
  INFO(recording.file);
  int axpy = 0;
  int spin = 0;
  for (const Recorded& record : read_recording(recording.file)) {
    if (record.kind != cupti::kActivityConcurrentKernel) continue;
    DecodedRecord decoded;
    REQUIRE(decode_record(record_layout(recording.api_version), record.bytes.data(), record.bytes.size(),
                          &decoded) == DecodeResult::decoded);
    const pillion_kernel& kernel = decoded.kernel;
    if (record.name.find("axpy") != std::string::npos) {
      ++axpy;
      // The graph's second node is launched with half the grid.
      CHECK(kernel.grid[0] == (kernel.graph_node == ((2ull << 32) | 3) ? 32u : 64u));
      CHECK(kernel.block[0] == 256);
      CHECK((kernel.grid[1] == 1 && kernel.grid[2] == 1 && kernel.block[1] == 1 && kernel.block[2] == 1));
    } else {
      ++spin;
      CHECK(record.name.find("spin") != std::string::npos);
      CHECK(kernel.end_ns - kernel.start_ns > 45'000);
      CHECK(kernel.end_ns - kernel.start_ns < 60'000);
    }
  }
  CHECK(axpy == 9);
  CHECK(spin == 3);
}

TEST_CASE("copies decode with kind, bytes and graphs") {
  const Recording recording = GENERATE(from_range(std::begin(kRecordings), std::end(kRecordings)));
  INFO(recording.file);
  std::map<std::pair<std::uint32_t, std::uint64_t>, int> plain;
  std::map<std::pair<std::uint32_t, std::uint64_t>, int> in_graph;
  std::set<std::uint32_t> correlations;
  for (const DecodedRecord& record :
       decode_all(read_recording(recording.file), recording.api_version, PILLION_RECORD_COPY)) {
    const pillion_copy& copy = record.copy;
    CHECK(copy.context == 1);
    CHECK(copy.end_ns > copy.start_ns);
    CHECK(copy.source_device == copy.device);
    CHECK(copy.destination_device == copy.device);
    correlations.insert(copy.correlation);
    ++(copy.graph == 0 ? plain : in_graph)[{copy.copy_kind, copy.bytes}];
    if (copy.graph != 0) {
      CHECK(copy.graph == 2);
      CHECK(copy.graph_node >> 32 == 2);
    }
  }
  CHECK(plain == std::map<std::pair<std::uint32_t, std::uint64_t>, int>{{{cupti::kMemcpyHtoD, 1048576}, 3},
                                                                        {{cupti::kMemcpyDtoD, 262144}, 3},
                                                                        {{cupti::kMemcpyDtoH, 1048576}, 3}});
  CHECK(in_graph == std::map<std::pair<std::uint32_t, std::uint64_t>, int>{{{cupti::kMemcpyDtoD, 8192}, 3}});
  CHECK(correlations.size() == 12);
}

TEST_CASE("sets decode with bytes and graphs") {
  const Recording recording = GENERATE(from_range(std::begin(kRecordings), std::end(kRecordings)));
  INFO(recording.file);
  std::map<std::uint64_t, int> plain;
  std::map<std::uint64_t, int> in_graph;
  for (const DecodedRecord& record :
       decode_all(read_recording(recording.file), recording.api_version, PILLION_RECORD_SET)) {
    CHECK(record.set.end_ns > record.set.start_ns);
    ++(record.set.graph == 0 ? plain : in_graph)[record.set.bytes];
  }
  CHECK(plain == std::map<std::uint64_t, int>{{524288, 3}});
  CHECK(in_graph == std::map<std::uint64_t, int>{{4096, 3}});
}

TEST_CASE("graph replays share their launch's correlation across kinds") {
  const Recording recording = GENERATE(from_range(std::begin(kRecordings), std::end(kRecordings)));
  INFO(recording.file);
  const auto records = read_recording(recording.file);
  std::map<std::uint32_t, int> nodes;
  for (const auto& record : decode_all(records, recording.api_version, PILLION_RECORD_KERNEL)) {
    if (record.kernel.graph != 0) ++nodes[record.kernel.correlation];
  }
  for (const auto& record : decode_all(records, recording.api_version, PILLION_RECORD_COPY)) {
    if (record.copy.graph != 0) ++nodes[record.copy.correlation];
  }
  for (const auto& record : decode_all(records, recording.api_version, PILLION_RECORD_SET)) {
    if (record.set.graph != 0) ++nodes[record.set.correlation];
  }
  REQUIRE(nodes.size() == 3);
  for (const auto& [correlation, count] : nodes) CHECK(count == 4);  // two kernels, a copy, a set
}

TEST_CASE("the device decodes") {
  const Recording recording = GENERATE(from_range(std::begin(kRecordings), std::end(kRecordings)));
  INFO(recording.file);
  const auto devices =
      decode_all(read_recording(recording.file), recording.api_version, PILLION_RECORD_DEVICE);
  REQUIRE(devices.size() == 1);
  const pillion_device& device = devices[0].device;
  CHECK(device.device == 0);
  CHECK(device.compute_major == 9);  // H200
  CHECK(device.compute_minor == 0);
  CHECK(device.multiprocessors == 132);
  CHECK(device.mig == 0);
  CHECK(device.uuid[0] != device.uuid[15]);
}

TEST_CASE("the context decodes") {
  const Recording recording = GENERATE(from_range(std::begin(kRecordings), std::end(kRecordings)));
  INFO(recording.file);
  const auto contexts =
      decode_all(read_recording(recording.file), recording.api_version, PILLION_RECORD_CONTEXT);
  REQUIRE(contexts.size() == 1);
  CHECK(contexts[0].context.header.size == sizeof(pillion_context));
  CHECK(contexts[0].context.context == 1);
  CHECK(contexts[0].context.device == 0);
}

TEST_CASE("overheads decode") {
  const Recording recording = GENERATE(from_range(std::begin(kRecordings), std::end(kRecordings)));
  INFO(recording.file);
  const auto overheads =
      decode_all(read_recording(recording.file), recording.api_version, PILLION_RECORD_OVERHEAD);
  CHECK(overheads.size() >= 8);
  for (const DecodedRecord& record : overheads) CHECK(record.overhead.end_ns >= record.overhead.start_ns);
}

TEST_CASE("a field past the loaded version's record is not read") {
  // 11.0's memcpy has no graph id: what lies behind it is the next record's.
  std::vector<std::uint8_t> bytes(256, 0xee);
  const std::uint32_t kind = cupti::kActivityMemcpy;
  std::memcpy(bytes.data(), &kind, sizeof(kind));
  DecodedRecord decoded;
  REQUIRE(decode_record(record_layout(13), bytes.data(), bytes.size(), &decoded) == DecodeResult::decoded);
  CHECK(decoded.copy.graph_node == 0xeeee'eeee'eeee'eeeeu);
  CHECK(decoded.copy.graph == 0);
}

TEST_CASE("records that are cut or unknown are told apart and never read past") {
  const Recording recording = GENERATE(from_range(std::begin(kRecordings), std::end(kRecordings)));
  for (const Recorded& record : read_recording(recording.file)) {
    for (std::size_t cut = 0; cut < record.bytes.size(); ++cut) {
      const std::vector<std::uint8_t> shorter(record.bytes.begin(),
                                              record.bytes.begin() + static_cast<std::ptrdiff_t>(cut));
      DecodedRecord decoded;
      CHECK(decode_record(record_layout(recording.api_version), shorter.data(), shorter.size(), &decoded) !=
            DecodeResult::decoded);
    }
  }
  std::uint32_t never = 9999;
  DecodedRecord decoded;
  CHECK(decode_record(record_layout(18), reinterpret_cast<std::uint8_t*>(&never), sizeof(never), &decoded) ==
        DecodeResult::unknown_kind);
}
