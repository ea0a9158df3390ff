// SPDX-License-Identifier: Apache-2.0
#include "collect/record_parser.h"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include "test_rings.h"

using namespace pillion;
using namespace pillion::collect;

namespace {

template <typename Wire>
void append(std::vector<std::byte>& batch, const Wire& record) {
  const auto bytes = std::as_bytes(std::span(&record, 1));
  batch.insert(batch.end(), bytes.begin(), bytes.end());
}

void append(std::vector<std::byte>& batch, const std::vector<std::byte>& record) {
  batch.insert(batch.end(), record.begin(), record.end());
}

std::vector<std::byte> bytes_of(const std::string& text) {
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

}  // namespace

TEST_CASE("every record type arrives field by field") {
  std::vector<std::byte> batch;
  auto launch = launch_record(11);
  launch.time_ns = 12;
  launch.context_key = 13;
  launch.function = 14;
  launch.cbid = 307;
  launch.kind = PILLION_LAUNCH_GRAPH;
  launch.flags = PILLION_LAUNCH_SNAPSHOT;
  append(batch, launch);
  auto failed = make_record<pillion_launch_failed>(PILLION_RECORD_LAUNCH_FAILED);
  failed.correlation = 21;
  failed.result = 700;
  append(batch, failed);
  auto sync = make_record<pillion_sync>(PILLION_RECORD_SYNC);
  sync.correlation = 22;
  sync.tid = 23;
  sync.time_ns = 24;
  sync.context_key = 25;
  sync.cbid = 126;
  sync.context = 26;
  sync.flags = PILLION_LAUNCH_SNAPSHOT;
  append(batch, sync);
  auto back = make_record<pillion_returned>(PILLION_RECORD_RETURNED);
  back.correlation = 27;
  back.flags = PILLION_RETURNED_SYNC;
  back.time_ns = 28;
  append(batch, back);
  auto kernel = make_record<pillion_kernel>(PILLION_RECORD_KERNEL);
  kernel.correlation = 31;
  kernel.device = 1;
  kernel.context = 2;
  kernel.stream = 3;
  kernel.start_ns = 1'000;
  kernel.end_ns = 900;  // CUPTI's word is passed on as it is
  kernel.name = 5;
  kernel.graph = 6;
  kernel.graph_node = 7;
  kernel.grid[2] = 8;
  kernel.block[0] = 9;
  kernel.static_shared_bytes = 10;
  kernel.dynamic_shared_bytes = 20;
  kernel.registers = 255;
  append(batch, kernel);
  auto copy = make_record<pillion_copy>(PILLION_RECORD_COPY);
  copy.correlation = 41;
  copy.bytes = 1ull << 40;
  copy.copy_kind = 10;
  copy.source_device = 1;
  copy.destination_device = 2;
  append(batch, copy);
  auto set = make_record<pillion_set>(PILLION_RECORD_SET);
  set.correlation = 51;
  set.bytes = 77;
  set.graph_node = 78;
  append(batch, set);
  auto overhead = make_record<pillion_overhead>(PILLION_RECORD_OVERHEAD);
  overhead.start_ns = 61;
  overhead.end_ns = 62;
  overhead.kind = 63;
  append(batch, overhead);
  auto name = make_record<pillion_name>(PILLION_RECORD_NAME);
  name.id = 71;
  name.length = 5;
  append(batch, with_tail(name, bytes_of("_Z1av")));
  auto thread = make_record<pillion_thread>(PILLION_RECORD_THREAD);
  thread.tid = 81;
  thread.stack_low = 82;
  thread.stack_high = 83;
  std::memset(thread.comm, 'c', sizeof(thread.comm));
  append(batch, thread);
  auto device = make_record<pillion_device>(PILLION_RECORD_DEVICE);
  device.device = 91;
  device.compute_major = 9;
  device.uuid[15] = 0xfe;
  device.mig = 1;
  std::memcpy(device.name, "H200", 5);
  append(batch, device);
  auto context = make_record<pillion_context>(PILLION_RECORD_CONTEXT);
  context.context = 95;
  context.device = 96;
  append(batch, context);
  append(batch, snapshot_record(101, bytes_of("stackbytes")));

  KeepingSink sink;
  ParseCounts counts;
  SequenceCheck sequence;
  parse_records(batch, sink, counts, sequence);
  CHECK(counts.records == 13);
  CHECK(counts.unknown_records == 0);
  CHECK(counts.malformed == 0);

  REQUIRE(sink.launches.size() == 1);
  CHECK(sink.launches[0].correlation == 11);
  CHECK(sink.launches[0].time_ns == 12);
  CHECK(sink.launches[0].context_key == 13);
  CHECK(sink.launches[0].function == 14);
  CHECK(sink.launches[0].cbid == 307);
  CHECK(sink.launches[0].kind == LaunchKind::graph);
  CHECK(sink.launches[0].has_snapshot);
  CHECK(sink.failed.at(0).result == 700);
  REQUIRE(sink.syncs.size() == 1);
  CHECK(sink.syncs[0].correlation == 22);
  CHECK(sink.syncs[0].tid == 23);
  CHECK(sink.syncs[0].time_ns == 24);
  CHECK(sink.syncs[0].context_key == 25);
  CHECK(sink.syncs[0].cbid == 126);
  CHECK(sink.syncs[0].context == 26);
  CHECK(sink.syncs[0].has_snapshot);
  REQUIRE(sink.returns.size() == 1);
  CHECK(sink.returns[0].correlation == 27);
  CHECK(sink.returns[0].sync);
  CHECK(sink.returns[0].time_ns == 28);
  REQUIRE(sink.executions.size() == 3);
  CHECK(sink.executions[0].kind == ExecutionKind::kernel);
  CHECK(sink.executions[0].end_ns == 900);
  CHECK(sink.executions[0].stream == 3);
  CHECK(sink.executions[0].name == 5);
  CHECK(sink.executions[0].graph_node == 7);
  CHECK(sink.executions[0].grid[2] == 8);
  CHECK(sink.executions[0].block[0] == 9);
  CHECK(sink.executions[0].registers == 255);
  CHECK(sink.executions[1].kind == ExecutionKind::copy);
  CHECK(sink.executions[1].bytes == 1ull << 40);
  CHECK(sink.executions[1].destination_device == 2);
  CHECK(sink.executions[2].kind == ExecutionKind::set);
  CHECK(sink.executions[2].graph_node == 78);
  CHECK(sink.overheads.at(0).end_ns == 62);
  CHECK(sink.names.at(0).name == "_Z1av");
  CHECK(sink.threads.at(0).comm == std::string(16, 'c'));
  CHECK(sink.devices.at(0).name == "H200");
  CHECK(sink.devices.at(0).uuid[15] == 0xfe);
  CHECK(sink.devices.at(0).mig);
  CHECK(sink.contexts.at(0).context == 95);
  CHECK(sink.contexts.at(0).device == 96);
  REQUIRE(sink.snapshots.size() == 1);
  CHECK(sink.snapshots[0].correlation == 101);
  CHECK(sink.snapshots[0].stack == bytes_of("stackbytes"));
}

TEST_CASE("unknown types and larger records of a newer minor are stepped over") {
  std::vector<std::byte> batch;
  auto unknown = make_record<pillion_launch>(999);
  append(batch, unknown);
  auto larger = launch_record(5);
  append(batch, with_tail(larger, std::vector<std::byte>(24)));
  auto kind = launch_record(6);
  kind.kind = 77;
  append(batch, kind);
  append(batch, launch_record(7));
  KeepingSink sink;
  ParseCounts counts;
  SequenceCheck sequence;
  parse_records(batch, sink, counts, sequence);
  CHECK(counts.unknown_records == 2);
  CHECK(counts.records == 2);
  REQUIRE(sink.launches.size() == 2);
  CHECK(sink.launches[0].correlation == 5);
  CHECK(sink.launches[1].correlation == 7);
}

TEST_CASE("Python frames behind a stack whose length is no multiple of 8") {
  std::vector<std::byte> tail(24 + 2 * sizeof(pillion_python_frame));
  const pillion_python_frame frames[] = {{3, -1, 0}, {4, 18, 0x7ffc1000}};
  std::memcpy(tail.data() + 24, frames, sizeof(frames));
  auto snapshot = make_record<pillion_snapshot>(PILLION_RECORD_SNAPSHOT);
  snapshot.stack_bytes = 17;
  snapshot.flags = PILLION_SNAPSHOT_PYTHON | PILLION_SNAPSHOT_PYTHON_CUT;
  snapshot.python_frames = 2;
  std::vector<std::byte> batch;
  append(batch, with_tail(snapshot, tail));
  snapshot.flags = PILLION_SNAPSHOT_PYTHON_PARTIAL;  // without the flag nothing follows
  append(batch, with_tail(snapshot, tail));
  KeepingSink sink;
  ParseCounts counts;
  SequenceCheck sequence;
  parse_records(batch, sink, counts, sequence);
  CHECK(counts.records == 2);
  REQUIRE(sink.snapshots.size() == 2);
  CHECK(sink.snapshots[0].stack.size() == 17);
  CHECK(sink.snapshots[0].python_cut);
  CHECK_FALSE(sink.snapshots[0].python_partial);
  REQUIRE(sink.snapshots[0].python.size() == 2);
  CHECK(sink.snapshots[0].python[0].code == 3);
  CHECK(sink.snapshots[0].python[0].offset == -1);
  CHECK(sink.snapshots[0].python[1].entry == 0x7ffc1000);
  CHECK(sink.snapshots[1].python.empty());
}

TEST_CASE("a Python code object's texts stand one behind the other") {
  auto code = make_record<pillion_python_code>(PILLION_RECORD_PYTHON_CODE);
  code.id = 9;
  code.version = 0x030b;
  code.first_line = 12;
  code.qualname_bytes = 7;
  code.filename_bytes = 8;
  code.line_table_bytes = 3;
  code.flags = PILLION_PYTHON_CODE_NAME_LOST;
  std::vector<std::byte> batch;
  append(batch, with_tail(code, bytes_of("Model.fmodel.py\x01\x02\x03")));
  code.id = 10;
  code.line_table_bytes = 0;
  code.flags = PILLION_PYTHON_CODE_NAME_CUT | PILLION_PYTHON_CODE_LINES_CUT;
  append(batch, with_tail(code, bytes_of("Model.fmodel.py")));
  KeepingSink sink;
  ParseCounts counts;
  SequenceCheck sequence;
  parse_records(batch, sink, counts, sequence);
  REQUIRE(sink.codes.size() == 2);
  CHECK(sink.codes[0].id == 9);
  CHECK(sink.codes[0].version == 0x030b);
  CHECK(sink.codes[0].first_line == 12);
  CHECK(sink.codes[0].qualname == "Model.f");
  CHECK(sink.codes[0].filename == "model.py");
  CHECK(sink.codes[0].line_table == bytes_of("\x01\x02\x03"));
  CHECK(sink.codes[0].name_lost);
  CHECK_FALSE(sink.codes[0].lines_cut);
  CHECK(sink.codes[1].name_cut);
  CHECK(sink.codes[1].lines_cut);
}

TEST_CASE("an impossible size ends the batch and is counted") {
  for (const std::uint32_t size : {0u, 4u, 7u, 9u, 47u, 40u, 4'096u, 0xfffffff8u, 0xffffffffu}) {
    INFO(size);
    std::vector<std::byte> batch;
    append(batch, launch_record(1));
    auto bad = launch_record(2);
    bad.header.size = size;
    append(batch, bad);
    append(batch, launch_record(3));
    KeepingSink sink;
    ParseCounts counts;
    SequenceCheck sequence;
    parse_records(batch, sink, counts, sequence);
    CHECK(sink.launches.size() == 1);
    CHECK(counts.malformed == 1);
    CHECK(counts.malformed_bytes == 2 * sizeof(pillion_launch));
  }
}

TEST_CASE("a batch that ends inside a header") {
  std::vector<std::byte> batch(4);
  KeepingSink sink;
  ParseCounts counts;
  SequenceCheck sequence;
  parse_records(batch, sink, counts, sequence);
  CHECK(counts.malformed == 1);
}

TEST_CASE("lengths inside a record may not reach past it") {
  std::vector<std::byte> batch;
  KeepingSink sink;
  ParseCounts counts;
  SequenceCheck sequence;
  SECTION("name") {
    auto name = make_record<pillion_name>(PILLION_RECORD_NAME);
    name.length = 9;
    append(batch, with_tail(name, bytes_of("12345678")));
  }
  SECTION("snapshot") {
    auto snapshot = make_record<pillion_snapshot>(PILLION_RECORD_SNAPSHOT);
    snapshot.stack_bytes = 0xffffffff;
    append(batch, with_tail(snapshot, bytes_of("12345678")));
  }
  SECTION("Python frames") {
    auto snapshot = make_record<pillion_snapshot>(PILLION_RECORD_SNAPSHOT);
    snapshot.flags = PILLION_SNAPSHOT_PYTHON;
    snapshot.stack_bytes = 8;
    snapshot.python_frames = GENERATE(1u, 2u, 0x10000000u, 0xffffffffu);
    append(batch, with_tail(snapshot, std::vector<std::byte>(16)));
  }
  SECTION("Python frames behind a stack that ends in the record's padding") {
    auto snapshot = make_record<pillion_snapshot>(PILLION_RECORD_SNAPSHOT);
    snapshot.flags = PILLION_SNAPSHOT_PYTHON;
    snapshot.stack_bytes = 16;
    snapshot.python_frames = 1;
    append(batch, with_tail(snapshot, std::vector<std::byte>(16)));
  }
  SECTION("Python code") {
    auto code = make_record<pillion_python_code>(PILLION_RECORD_PYTHON_CODE);
    code.qualname_bytes = GENERATE(0u, 9u, 0xffffffffu);
    code.filename_bytes = GENERATE(8u, 0xffffffffu);
    code.line_table_bytes = 1;
    append(batch, with_tail(code, bytes_of("12345678")));
  }
  parse_records(batch, sink, counts, sequence);
  CHECK(counts.malformed == 1);
  CHECK(counts.records == 0);
}

TEST_CASE("stacks and names past their caps are cut and say so") {
  std::vector<std::byte> batch;
  append(batch, snapshot_record(1, std::vector<std::byte>(kStackBytesMax)));
  append(batch, snapshot_record(2, std::vector<std::byte>(kStackBytesMax + 8)));
  auto name = make_record<pillion_name>(PILLION_RECORD_NAME);
  name.length = kNameBytesMax + 1;
  append(batch, with_tail(name, std::vector<std::byte>(kNameBytesMax + 1)));
  KeepingSink sink;
  ParseCounts counts;
  SequenceCheck sequence;
  parse_records(batch, sink, counts, sequence);
  REQUIRE(sink.snapshots.size() == 2);
  CHECK_FALSE(sink.snapshots[0].truncated);
  CHECK(sink.snapshots[1].truncated);
  CHECK(sink.snapshots[1].stack.size() == kStackBytesMax);
  CHECK(counts.cut_snapshots == 1);
  CHECK(sink.names.at(0).name.size() == kNameBytesMax);
  CHECK(counts.cut_names == 1);
}

TEST_CASE("what Python may send too much of is cut or left out") {
  std::vector<std::byte> batch;
  auto code = make_record<pillion_python_code>(PILLION_RECORD_PYTHON_CODE);
  code.qualname_bytes = kNameBytesMax + 1;
  code.line_table_bytes = kLineTableBytesMax + 1;
  append(batch, with_tail(code, std::vector<std::byte>(kNameBytesMax + 1 + kLineTableBytesMax + 1)));
  auto snapshot = make_record<pillion_snapshot>(PILLION_RECORD_SNAPSHOT);
  snapshot.flags = PILLION_SNAPSHOT_PYTHON;
  snapshot.python_frames = PILLION_PYTHON_FRAMES_MAX + 1;
  append(batch, with_tail(snapshot, std::vector<std::byte>((PILLION_PYTHON_FRAMES_MAX + 1) * 16)));
  KeepingSink sink;
  ParseCounts counts;
  SequenceCheck sequence;
  parse_records(batch, sink, counts, sequence);
  REQUIRE(sink.codes.size() == 1);
  CHECK(sink.codes[0].qualname.size() == kNameBytesMax);
  CHECK(sink.codes[0].name_cut);
  CHECK(sink.codes[0].line_table.empty());
  CHECK(sink.codes[0].lines_cut);
  CHECK(sink.snapshots.at(0).python.size() == PILLION_PYTHON_FRAMES_MAX);
  CHECK(sink.snapshots.at(0).python_cut);
  CHECK(counts.cut_names == 1);
  CHECK(counts.cut_python == 2);
}
