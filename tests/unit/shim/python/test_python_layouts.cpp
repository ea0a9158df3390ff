// SPDX-License-Identifier: Apache-2.0
//
// The tables against what each version's headers say, and chains that are built from those and read with the
// tables.
#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/generators/catch_generators_range.hpp>
#include <cstring>
#include <memory>

#include "../control/shared_region.h"
#include "abi/pillion_abi.h"
#include "built_chain.h"
#include "python_codes.h"
#include "python_layout.h"
#include "python_stack.h"

using namespace pillion::shim;
using namespace pillion::shim::test;

namespace {

// What a walk of a built chain has found.
struct Seen {
  std::uint32_t flags = 0;
  std::vector<BuiltChain::Frame> frames;
  std::vector<std::uint64_t> entries;
  bool operator==(const Seen&) const = default;
};

class Reader {
 public:
  Reader() {
    events_set_->open(events_.base(), events_.header());
    session_.events = events_set_.get();
    session_.counters = counters_;
    session_.number = 1;
  }

  // What was met before is forgotten.
  Seen read(const Interpreter& interpreter) {
    pages_->forget();
    records_.clear();
    REQUIRE(codes_->begin());
    return read_again(interpreter);
  }

  Seen read_again(const Interpreter& interpreter) {
    PythonStack stack;
    collect_python({interpreter, *pages_, session_, 1, 1}, *codes_, &stack);
    for (auto& record : events_.drain(0)) {
      pillion_python_code head;
      std::memcpy(&head, record.data(), sizeof head);
      records_[head.id] = std::move(record);
    }
    Seen seen{stack.flags, {}, {}};
    for (std::uint32_t at = 0; at < stack.count; ++at) {
      const pillion_python_frame& frame = stack.frames[at];
      seen.frames.push_back(named(records_[frame.code], frame));
      seen.entries.push_back(frame.entry);
    }
    return seen;
  }

 private:
  static BuiltChain::Frame named(const std::vector<std::uint8_t>& record, const pillion_python_frame& frame) {
    if (record.empty()) return {"", "", "", 0, frame.offset, frame.entry != 0};
    pillion_python_code head;
    std::memcpy(&head, record.data(), sizeof head);
    const std::string text(record.begin() + sizeof head, record.end());
    return {text.substr(0, head.qualname_bytes),
            text.substr(head.qualname_bytes, head.filename_bytes),
            text.substr(head.qualname_bytes + head.filename_bytes, head.line_table_bytes),
            head.first_line,
            frame.offset,
            frame.entry != 0};
  }

  SharedRegion events_{{PILLION_REGION_EVENTS, 1, 1, 1 << 20}};
  std::unique_ptr<RingSet> events_set_ = std::make_unique<RingSet>();
  std::unique_ptr<ReadablePages> pages_ = std::make_unique<ReadablePages>();
  std::unique_ptr<PythonCodes> codes_ = std::make_unique<PythonCodes>();
  pillion_counters counters_[kCounterShards] = {};
  CaptureSession session_{};
  std::map<std::uint32_t, std::vector<std::uint8_t>> records_;  // CODE records, by number
};

// The chain as it is, and once more with another code object where the leaf's was.
std::vector<Seen> read_twice(Reader& reader, const PythonOffsets& layout, const PythonOffsets& table,
                             bool in_sub_interpreter) {
  BuiltChain chain(layout, in_sub_interpreter);
  const Interpreter interpreter = chain.interpreter(table);
  std::vector<Seen> seen{reader.read(interpreter)};
  chain.replace_leaf_code();
  seen.push_back(reader.read_again(interpreter));
  // To compare with other chains, which lie elsewhere.
  for (Seen& one : seen) {
    for (std::uint64_t& entry : one.entries)
      entry = entry > PILLION_PYTHON_ENTRY_UNPLACED ? entry - interpreter.code_type : entry;
  }
  return seen;
}

}  // namespace

TEST_CASE("each version's table is what its headers say") {
  const PythonLayout layout =
      PythonLayout::read(GENERATE(from_range(std::begin(kLayouts), std::end(kLayouts))));
  INFO(layout.name);
  const PythonOffsets* table = python_offsets(layout.version);
  REQUIRE(table != nullptr);
  const PythonOffsets headers = layout.table();
  for (const PythonOffsetField& field : kPythonOffsetFields) {
    INFO(field.name);
    CHECK(table->*field.field == headers.*field.field);
  }
}

TEST_CASE("what 3.13 and 3.14 publish of themselves agrees; one word of it that differs is named") {
  PythonLayout layout = PythonLayout::read(GENERATE(as<std::string>{}, "3.13", "3.14"));
  INFO(layout.name);
  const PythonOffsets& table = *python_offsets(layout.version);
  std::vector<std::uint8_t>& published = layout.published;
  published.resize(kPublishedBytes);
  std::uint64_t full_version = 0;
  std::memcpy(&full_version, &published[8], 8);
  const auto full = static_cast<std::uint32_t>(full_version);
  const char* field = nullptr;
  CHECK(check_published_offsets(table, full, published.data(), &field) == PublishedOffsets::agree);
  CHECK(check_published_offsets(table, full + 0x100, published.data(), &field) ==
        PublishedOffsets::other_version);
  std::uint32_t named = 0;
  for (std::size_t at = 24; at < published.size(); at += 8) {
    std::vector<std::uint8_t> changed = published;
    changed[at] = static_cast<std::uint8_t>(changed[at] + 8);
    const auto found = check_published_offsets(table, full, changed.data(), &field);
    named += found == PublishedOffsets::differ ? 1u : 0u;
    CHECK((found == PublishedOffsets::differ) == (*field != '\0'));
  }
  CHECK(named == 11);
}

TEST_CASE("free-threaded builds say so in what they publish") {
  PythonLayout layout = PythonLayout::read(GENERATE(as<std::string>{}, "3.13t", "3.14t"));
  INFO(layout.name);
  layout.published.resize(kPublishedBytes);
  std::uint64_t full = 0;
  std::memcpy(&full, &layout.published[8], 8);
  const char* field = nullptr;
  CHECK(check_published_offsets(*python_offsets(layout.version), static_cast<std::uint32_t>(full),
                                layout.published.data(), &field) == PublishedOffsets::free_threaded);
  // Their structures are others, so that reading them with the version's table would be wrong.
  CHECK(layout.table().code_name != python_offsets(layout.version)->code_name);
}

TEST_CASE("a chain that is built from the headers' layout is read frame by frame") {
  const PythonLayout layout =
      PythonLayout::read(GENERATE(from_range(std::begin(kLayouts), std::end(kLayouts))));
  INFO(layout.name);
  const PythonOffsets headers = layout.table();
  const bool in_sub_interpreter = headers.runtime_current != PythonOffsets::kAbsent && GENERATE(false, true);
  BuiltChain chain(headers, in_sub_interpreter);
  const Interpreter interpreter = chain.interpreter(*python_offsets(layout.version));
  Reader reader;
  Seen seen = reader.read(interpreter);
  for (const bool replaced : {false, true}) {
    if (replaced) {
      chain.replace_leaf_code();
      seen = reader.read_again(interpreter);
    }
    CHECK(seen.flags == PILLION_SNAPSHOT_PYTHON);
    REQUIRE(seen.frames.size() == chain.expected().size());
    for (std::size_t at = 0; at < seen.frames.size(); ++at) {
      INFO(at << ": " << seen.frames[at].name << " in " << seen.frames[at].file);
      CHECK(seen.frames[at] == chain.expected()[at]);
    }
    // Each native frame has an address of its own, but in 3.9, which leaves none on the C stack.
    const auto unplaced = std::count(seen.entries.begin(), seen.entries.end(), PILLION_PYTHON_ENTRY_UNPLACED);
    CHECK(unplaced == (layout.version == 0x0309 ? 4 : 0));
  }
}

TEST_CASE("pages that were forgotten are tried again, also by a thread that has used them") {
  const PythonLayout layout =
      PythonLayout::read(GENERATE(from_range(std::begin(kLayouts), std::end(kLayouts))));
  INFO(layout.name);
  BuiltChain chain(layout.table());
  const Interpreter interpreter = chain.interpreter(*python_offsets(layout.version));
  Reader reader;
  CHECK(reader.read(interpreter).flags == PILLION_SNAPSHOT_PYTHON);
  chain.hide(true);
  const Seen hidden = reader.read(interpreter);
  chain.hide(false);
  CHECK(hidden.flags == (PILLION_SNAPSHOT_PYTHON | PILLION_SNAPSHOT_PYTHON_PARTIAL));
  CHECK(hidden.frames.empty());
  CHECK(reader.read(interpreter).frames == chain.expected());
}

TEST_CASE("an offset that is wrong by 8 or by 4 gives something else, and no fault") {
  const PythonLayout layout =
      PythonLayout::read(GENERATE(from_range(std::begin(kLayouts), std::end(kLayouts))));
  INFO(layout.name);
  const PythonOffsets headers = layout.table();
  Reader reader;
  for (const PythonOffsetField& field : kPythonOffsetFields) {
    if (headers.*field.field == PythonOffsets::kAbsent) continue;
    INFO(field.name);
    const bool in_sub_interpreter = field.field == &PythonOffsets::runtime_current;
    const auto right = read_twice(reader, headers, headers, in_sub_interpreter);
    for (const int by : {-8, -4, 4, 8}) {
      if (headers.*field.field + by < 0) continue;
      INFO(by);
      PythonOffsets wrong = headers;
      wrong.*field.field = static_cast<std::uint16_t>(wrong.*field.field + by);
      CHECK_FALSE(read_twice(reader, headers, wrong, in_sub_interpreter) == right);
    }
  }
}
