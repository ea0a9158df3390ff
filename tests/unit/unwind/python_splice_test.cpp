// SPDX-License-Identifier: Apache-2.0
#include "unwind/python_splice.h"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <random>
#include <vector>

#include "abi/pillion_abi.h"

using namespace pillion;
using namespace pillion::unwind;

namespace {

// Files of the stacks below. Addresses from kEval on are the interpreter's loop, if it has symbols.
constexpr std::uint32_t kDriver = 1;
constexpr std::uint32_t kPython = 2;
constexpr std::uint32_t kExtension = 3;
constexpr std::uint32_t kEmbedding = 4;  // holds CPython and code of its own
constexpr std::uint32_t kGreenlet = 5;
constexpr std::uint64_t kEval = 0x1000;

struct FakeCode final : InterpreterCode {
  bool symbols = true;
  bool is_interpreter(std::uint32_t file) override { return file == kPython; }
  bool is_program(std::uint32_t file) override { return file == kEmbedding; }
  bool is_eval_loop(const UnwoundFrame& frame) override {
    return symbols && (frame.file == kPython || frame.file == kEmbedding) && frame.address >= kEval;
  }
  bool is_greenlet(std::uint32_t file) override { return file == kGreenlet; }
};

UnwoundFrame native(std::uint32_t file, std::uint64_t address = 1) { return {file, address}; }
UnwoundFrame eval(std::uint32_t file = kPython) { return native(file, kEval); }
UnwoundFrame python(std::uint32_t code, std::int32_t offset = 0) {
  return UnwoundFrame::python(code, offset);
}
const UnwoundFrame kUnplaced = UnwoundFrame::mark(FrameKind::python_unplaced);
const UnwoundFrame kCut = UnwoundFrame::mark(FrameKind::python_cut);

using Frames = std::vector<UnwoundFrame>;

// Frame i of a native stack lies at [100 * (i + 1), 100 * (i + 2)).
std::uint64_t within(std::size_t frame) { return 100 * (frame + 1) + 50; }

struct Case {
  Frames frames;
  RawSnapshot snapshot;
  FakeCode code;
  PythonSplice counts;
  bool last_end_known = false;

  Frames splice() {
    std::vector<std::uint64_t> stack_pointers;
    for (std::size_t i = 0; i < frames.size() + (last_end_known ? 1 : 0); ++i)
      stack_pointers.push_back(100 * (i + 1));
    counts = {};
    return splice_python({frames, stack_pointers}, snapshot, code, counts);
  }
};

}  // namespace

TEST_CASE("one native frame stands for the Python frames that it runs, with symbols and without") {
  Case c;
  c.code.symbols = GENERATE(true, false);
  //                 0                1                   2       3                4       5
  c.frames = {native(kDriver), native(kExtension), native(kPython), eval(), native(kPython), native(kDriver)};
  c.snapshot.python = {{10, 4, 0}, {11, -1, 0}, {12, 8, within(3)}};
  CHECK(c.splice() == Frames{native(kDriver), native(kExtension), python(10, 4), python(11, -1),
                             python(12, 8), native(kDriver)});
  CHECK(c.counts.frames == 3);
  CHECK(c.counts.entries == 1);
  CHECK(c.counts.unplaced == 0);
  CHECK(c.counts.evals_left == 0);
}

TEST_CASE("an extension that calls back stands between the Python frames") {
  Case c;
  c.frames = {native(kDriver), eval(), native(kPython), native(kExtension), native(kPython), eval()};
  c.snapshot.python = {{10, 0, within(1)}, {11, 0, 0}, {12, 0, within(5)}};
  c.last_end_known = true;
  CHECK(c.splice() == Frames{native(kDriver), python(10), native(kExtension), python(11), python(12)});
  CHECK(c.counts.entries == 2);
  CHECK(c.counts.unplaced == 0);
}

TEST_CASE("a program that embeds the interpreter keeps all frames but those of the loop") {
  Case c;
  c.frames = {native(kDriver), native(kEmbedding), eval(kEmbedding), native(kEmbedding), native(kDriver)};
  c.snapshot.python = {{10, 0, within(2)}};
  CHECK(c.splice() ==
        Frames{native(kDriver), native(kEmbedding), python(10), native(kEmbedding), native(kDriver)});
}

TEST_CASE("frames whose native part was not walked stand at the root side, marked") {
  Case c;
  c.frames = {native(kDriver), eval(), native(kExtension)};  // and there the walk ended
  c.snapshot.python = {{10, 0, within(1)}, {11, 0, within(7)}, {12, 0, 0}, {13, 0, within(9)}};
  CHECK(c.splice() == Frames{native(kDriver), python(10), native(kExtension), kUnplaced, python(11),
                             kUnplaced, python(12), python(13)});
  CHECK(c.counts.unplaced == 2);
  CHECK(c.counts.frames == 4);
}

TEST_CASE("the last frame's part of the stack is used where it is known") {
  Case c;
  c.frames = {native(kDriver), eval()};
  c.snapshot.python = {{10, 0, within(1)}};
  CHECK(c.splice() == Frames{native(kDriver), eval(), kUnplaced, python(10)});
  c.last_end_known = true;
  CHECK(c.splice() == Frames{native(kDriver), python(10)});
}

TEST_CASE("without any place no native frame is left out") {
  Case c;
  c.frames = {native(kDriver), native(kPython), eval(), native(kPython)};
  c.snapshot.python = {{10, 0, 7}};
  CHECK(c.splice() ==
        Frames{native(kDriver), native(kPython), eval(), native(kPython), kUnplaced, python(10)});
  CHECK(c.counts.evals_left == 1);
}

TEST_CASE("a run between two that have places stands between them") {
  Case c;
  c.frames = {native(kDriver), eval(), native(kExtension), eval(), native(kDriver)};
  // The second run's address is on the wrong side: order says where it belongs.
  c.snapshot.python = {{10, 0, within(1)}, {11, 0, within(0)}, {12, 0, within(3)}};
  CHECK(c.splice() == Frames{native(kDriver), python(10), native(kExtension), kUnplaced, python(11),
                             python(12), native(kDriver)});
}

TEST_CASE("two runs cannot have one native frame") {
  Case c;
  c.frames = {native(kDriver), eval(), native(kDriver)};
  c.snapshot.python = {{10, 0, within(1)}, {11, 0, within(1) + 1}};
  CHECK(c.splice() == Frames{native(kDriver), python(10), native(kDriver), kUnplaced, python(11)});
}

TEST_CASE(
    "a loop's native frame that no Python frame came for stays, and is said to lack its Python frames") {
  Case c;
  c.frames = {native(kDriver), eval(), native(kPython), eval(), native(kDriver)};
  c.snapshot.python = {{10, 0, within(1)}};
  CHECK(c.splice() == Frames{native(kDriver), python(10), kCut, eval(), native(kDriver)});
  CHECK(c.counts.evals_left == 1);
}

TEST_CASE("the loop's frames that are left in a program that embeds it are counted and marked, too") {
  Case c;
  c.frames = {native(kDriver), eval(kEmbedding), native(kEmbedding), eval(kEmbedding), native(kDriver)};
  c.snapshot.python = {{10, 0, within(3)}};
  CHECK(c.splice() ==
        Frames{native(kDriver), kCut, eval(kEmbedding), native(kEmbedding), python(10), native(kDriver)});
  CHECK(c.counts.evals_left == 1);
}

TEST_CASE("frames of the loop that another interpreter's frames are missing for are marked where they are") {
  Case c;
  c.frames = {native(kDriver), eval(), native(kPython), eval(), native(kExtension), eval(), native(kDriver)};
  c.snapshot.python = {{10, 0, within(5)}};
  c.snapshot.python_partial = GENERATE(false, true);
  CHECK(c.splice() ==
        Frames{native(kDriver), kCut, eval(), eval(), native(kExtension), python(10), native(kDriver)});
  CHECK(c.counts.evals_left == 2);
}

TEST_CASE("a greenlet's stack ends at the native frame that called its first function") {
  Case c;
  // What lies beyond is another greenlet's, or was once.
  c.frames = {native(kDriver),      eval(), native(kExtension), eval(),         native(kPython),
              native(kGreenlet, 2), eval(), native(kGreenlet),  native(kDriver)};
  c.snapshot.python = {{10, 0, within(1)}, {11, 0, within(3)}};
  const Frames whole{native(kDriver), python(10), native(kExtension), python(11), native(kGreenlet, 2)};
  CHECK(c.splice() == whole);
  CHECK(c.counts.greenlet);
  CHECK(c.counts.evals_left == 0);
  SECTION("not while a frame of its chain is further out: greenlet may call back") {
    c.snapshot.python.push_back({12, 0, within(6)});
    CHECK(c.splice() == Frames{native(kDriver), python(10), native(kExtension), python(11),
                               native(kGreenlet, 2), python(12), native(kGreenlet)});
    CHECK(c.counts.greenlet);
  }
  SECTION("not while nobody knows where the chain ends") {
    c.snapshot.python_cut = true;
    CHECK(c.splice().size() > whole.size());
    CHECK_FALSE(c.counts.greenlet);
  }
  SECTION("nothing beyond: the walk has ended there by itself") {
    c.frames.resize(6);
    c.last_end_known = true;
    CHECK(c.splice() == whole);
    CHECK(c.counts.greenlet);
  }
}

TEST_CASE("3.9: entries without an address take the frames of the loop in order, by symbol") {
  Case c;
  const std::uint64_t entry = PILLION_PYTHON_ENTRY_UNPLACED;
  c.frames = {native(kDriver), eval(), native(kPython), eval(), native(kExtension), eval(), native(kDriver)};
  c.snapshot.python = {{10, 0, entry}, {11, 0, entry}, {12, 0, entry}};
  CHECK(c.splice() ==
        Frames{native(kDriver), python(10), python(11), native(kExtension), python(12), native(kDriver)});
  SECTION("one frame of the loop too many stays at the root side") {
    c.snapshot.python.pop_back();
    CHECK(c.splice() ==
          Frames{native(kDriver), python(10), python(11), native(kExtension), kCut, eval(), native(kDriver)});
  }
  SECTION("one too few") {
    c.snapshot.python.push_back({13, 0, entry});
    CHECK(c.splice().back() == python(13));
    CHECK(c.counts.unplaced == 1);
  }
  SECTION("stripped: nothing tells the loop's frames") {
    c.code.symbols = false;
    CHECK(c.splice().size() == c.frames.size() + 6);
    CHECK(c.counts.unplaced == 3);
  }
  SECTION("partial: counting from the leaf would mislead") {
    c.snapshot.python_partial = true;
    CHECK(c.splice().size() == c.frames.size() + 7);
    CHECK(c.counts.unplaced == 3);
  }
}

TEST_CASE("what the snapshot does not have is said where it is missing") {
  Case c;
  c.frames = {native(kDriver), eval(), native(kExtension), eval(), native(kDriver)};
  c.snapshot.python = {{10, 0, within(1)}, {11, 0, 0}};
  c.snapshot.python_cut = true;  // 11's entry frame is not there, so that its place is by symbol
  CHECK(c.splice() ==
        Frames{native(kDriver), python(10), native(kExtension), python(11), kCut, native(kDriver)});
}

TEST_CASE("whatever a snapshot says, no frame is lost or invented") {
  std::mt19937 random(7);
  for (int round = 0; round < 5'000; ++round) {
    Case c;
    c.code.symbols = random() % 2 == 0;
    c.last_end_known = random() % 2 == 0;
    std::size_t others = 0;
    for (std::size_t i = random() % 12; i > 0; --i) {
      const UnwoundFrame frame = random() % 3 == 0 ? eval() : native(1 + random() % 4);
      others += frame.file != kPython;
      c.frames.push_back(frame);
    }
    for (std::uint32_t i = random() % 12; i > 0; --i)
      c.snapshot.python.push_back({i, 0, random() % 2 == 0 ? 0 : random() % 1'500});
    c.snapshot.python_cut = random() % 4 == 0;
    c.snapshot.python_partial = random() % 4 == 0;
    std::vector<std::uint32_t> seen;
    std::size_t kept = 0;
    for (const auto& frame : c.splice()) {
      if (frame.kind == FrameKind::python) seen.push_back(frame.file);
      kept += frame.kind == FrameKind::native && frame.file != kPython;
    }
    std::vector<std::uint32_t> all;
    for (const auto& frame : c.snapshot.python) all.push_back(frame.code);
    REQUIRE(seen == all);
    REQUIRE(c.counts.frames == all.size());
    // What else is missing is the frame of a run whose address lies in it.
    REQUIRE(others - kept <= c.counts.entries - c.counts.unplaced);
  }
}
