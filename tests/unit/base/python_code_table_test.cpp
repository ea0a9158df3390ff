// SPDX-License-Identifier: Apache-2.0
#include "base/python_code_table.h"

#include <catch2/catch_test_macros.hpp>
#include <thread>

#include "base/stack_table.h"

using namespace pillion;

namespace {

RawPythonCode code(std::uint32_t id, std::string name, std::size_t table_bytes = 0) {
  RawPythonCode made;
  made.id = id;
  made.qualname = std::move(name);
  made.line_table.resize(table_bytes);
  return made;
}

}  // namespace

TEST_CASE("a code object is found by its number, and keeps its first meaning") {
  PythonCodeTable table;
  table.add(code(1, "first"));
  table.add(code(2, "second"));
  table.add(code(1, "again"));
  table.add(code(0, "no number"));
  CHECK(table.size() == 2);
  REQUIRE(table.find(1) != nullptr);
  CHECK(table.find(1)->qualname == "first");
  CHECK(table.find(2)->qualname == "second");
  CHECK(table.find(0) == nullptr);
  CHECK(table.find(3) == nullptr);
  CHECK(table.refused() == 0);
}

TEST_CASE("code objects past the limits are left out and counted") {
  PythonCodeTable table({3, 1'000});
  table.add(code(1, "a", 600));
  table.add(code(2, "b", 600));
  CHECK(table.refused() == 1);
  table.add(code(3, "c", 300));
  table.add(code(4, "d"));
  table.add(code(5, "e"));
  CHECK(table.size() == 3);
  CHECK(table.refused() == 2);
  CHECK(table.find(2) == nullptr);
  CHECK(table.find(4) != nullptr);
}

TEST_CASE("a code object outlives its table, and may be asked for while others come") {
  std::shared_ptr<const RawPythonCode> held;
  {
    PythonCodeTable table;
    std::thread adds([&table] {
      for (std::uint32_t id = 1; id <= 5'000; ++id) table.add(code(id, std::to_string(id)));
    });
    std::size_t wrong = 0;
    while (table.find(5'000) == nullptr) {
      const auto found = table.find(2'500);
      wrong += found != nullptr && found->qualname != "2500";
    }
    adds.join();
    CHECK(wrong == 0);
    held = table.find(7);
  }
  CHECK(held->qualname == "7");
}

TEST_CASE("stacks that differ in a frame's kind or in a Python offset have numbers of their own") {
  StackTable stacks;
  const auto stack = [](UnwoundFrame frame) { return UnwoundStack{{frame}, StackEnding::rooted}; };
  const UnwoundFrame frames[] = {UnwoundFrame::python(5, 10),
                                 UnwoundFrame::python(5, -10),
                                 UnwoundFrame::python(6, 10),
                                 UnwoundFrame{5, 10, false},
                                 UnwoundFrame::mark(FrameKind::python_cut),
                                 UnwoundFrame::mark(FrameKind::python_unplaced)};
  StackId last = 0;
  for (const UnwoundFrame& frame : frames) {
    const StackId id = stacks.intern(stack(frame));
    CHECK(id == last + 1);
    last = id;
    CHECK(stacks.intern(stack(frame)) == id);
    CHECK(stacks.stack(id).frames == std::vector{frame});
  }
  CHECK(stacks.stack(2).frames[0].python_offset() == -10);
}
