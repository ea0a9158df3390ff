// SPDX-License-Identifier: Apache-2.0
// Snapshots, maps and files as a workload could make them: a stack comes back, with a bound on its length.
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <catch2/catch_test_macros.hpp>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <random>

#include "capture.h"
#include "fake_file_source.h"
#include "modules.h"
#include "unwind/unwinder.h"

using namespace pillion;
using namespace pillion::unwind;
using namespace pillion::test;

namespace {

struct Leaf {
  std::uint64_t stack_high;
  Capture capture;
};

void take(void* argument) {
  auto& leaf = *static_cast<Leaf*>(argument);
  capture_here(leaf.stack_high, leaf.capture);
}

RawSnapshot take_one(unsigned long seed) {
  Leaf leaf{own_stack_high(), {}};
  descend_from_here(seed, 20, take, &leaf);
  return std::move(leaf.capture.snapshot);
}

// Serves one file's bytes for every mapping.
class BytesSource : public FileSource {
 public:
  Result<UniqueFd> open(TargetId, const Mapping&) override {
    UniqueFd fd(::memfd_create("hostile", MFD_CLOEXEC));
    if (::write(fd.get(), bytes.data(), bytes.size()) < 0) return fail_errno("write", "memfd");
    return fd;
  }
  std::vector<char> bytes;
};

// PILLION_HOSTILE_ROUNDS=N: N rounds more, from another start, for a longer search by hand.
unsigned extra_rounds() {
  const char* text = std::getenv("PILLION_HOSTILE_ROUNDS");
  return text == nullptr ? 0 : static_cast<unsigned>(std::strtoul(text, nullptr, 10));
}

}  // namespace

TEST_CASE("mutated stacks and registers end with a name, within bounds") {
  FileTable files;
  FakeFileSource source;
  Unwinder unwinder(files, source);
  shape_modules();  // loaded before the maps are read
  const auto maps = MapsTable::parse(own_maps());
  std::mt19937_64 random(5);
  std::array<std::uint64_t, 8> endings{};
  for (unsigned round = 0; round < 400; ++round) {
    const RawSnapshot original = take_one(round % 20);
    for (unsigned variant = 0; variant < 10; ++variant) {
      RawSnapshot snapshot = original;
      for (unsigned change = 0; change < 1 + random() % 30; ++change) {
        const std::size_t words = snapshot.stack.size() / 8;
        // Values that look like stack or code lead further than noise does.
        const std::uint64_t values[] = {
            random(), snapshot.stack_start + random() % snapshot.stack.size(),
            maps.mappings()[random() % maps.mappings().size()].start + random() % 4096, 0};
        const std::uint64_t value = values[random() % 4];
        std::memcpy(snapshot.stack.data() + random() % words * 8, &value, 8);
        if (variant % 3 == 0) snapshot.registers[random() % 8] = value;
      }
      if (variant % 5 == 0) snapshot.stack.resize(random() % snapshot.stack.size());
      if (variant == 7) snapshot.stack_start = random();
      const auto stack = unwinder.unwind(snapshot, maps, 1).stack;
      REQUIRE(stack.frames.size() <= Unwinder::kFramesMax);
      ++endings[static_cast<std::size_t>(stack.ending)];
    }
  }
  CHECK(unwinder.counters().endings == endings);
  CHECK(endings[static_cast<std::size_t>(StackEnding::bad_cfa)] > 0);
  CHECK(endings[static_cast<std::size_t>(StackEnding::no_mapping)] > 0);
}

TEST_CASE("a frame pointer that leads round in a circle ends") {
  // Anonymous code has no frame information, so the walk follows the frame pointer.
  const auto maps = MapsTable::parse("10000-20000 r-xp 00000000 00:00 0 \n");
  FileTable files;
  FakeFileSource source;
  Unwinder unwinder(files, source);
  RawSnapshot snapshot;
  snapshot.stack_start = 0x7000;
  snapshot.stack.resize(64);
  const std::uint64_t words[] = {0x7000, 0x10010, 0x7000, 0x10010};  // saved rbp, return address
  std::memcpy(snapshot.stack.data(), words, sizeof words);
  snapshot.registers = {0x10000, 0x7000, 0x7000, 0, 0, 0, 0, 0};
  const auto outcome = unwinder.unwind(snapshot, maps, 1);
  CHECK(outcome.stack.ending == StackEnding::no_cfi);  // the second step would go down the stack
  CHECK(outcome.stack.frames.size() == 2);
  CHECK(unwinder.counters().frame_pointer == 1);
  CHECK(unwinder.counters().frames_without_file == 2);
}

TEST_CASE("mutated and cut files give stacks or errors") {
  const RawSnapshot snapshot = take_one(3);  // loads the libraries, so before the maps are read
  const auto maps = MapsTable::parse(own_maps());
  std::vector<char> original;
  for (const auto& mapping : maps.mappings()) {
    if (mapping.path.find("libshapes_o2.so") == std::string::npos) continue;
    std::ifstream file(mapping.path, std::ios::binary);
    original.assign(std::istreambuf_iterator<char>(file), {});
  }
  REQUIRE(original.size() > 4096);
  std::mt19937 random(9 + extra_rounds());
  for (unsigned round = 0; round < 300 + extra_rounds(); ++round) {
    BytesSource source;
    source.bytes = original;
    for (unsigned change = 0; change < 1 + random() % 50; ++change) {
      const std::size_t reach = round % 3 == 0 ? 1024 : std::min<std::size_t>(source.bytes.size(), 32768);
      source.bytes[random() % reach] = static_cast<char>(random());
    }
    if (round % 4 == 0) source.bytes.resize(random() % source.bytes.size());
    FileTable files;
    Unwinder unwinder(files, source, 1024);
    REQUIRE(unwinder.unwind(snapshot, maps, 1).stack.frames.size() <= Unwinder::kFramesMax);
    // Every address of the file, as if it were mapped at its own addresses.
    const auto flat = MapsTable::parse("1000-8000 r-xp 00001000 08:01 1 /x\n");
    RawSnapshot anywhere = snapshot;
    for (std::uint64_t pc = 0x1000; pc < 0x8000; pc += 61) {
      anywhere.registers[0] = pc;
      (void)unwinder.unwind(anywhere, flat, 2);
    }
  }
}
