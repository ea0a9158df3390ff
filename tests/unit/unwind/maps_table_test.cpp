// SPDX-License-Identifier: Apache-2.0
#include "unwind/maps_table.h"

#include <sys/sysmacros.h>

#include <catch2/catch_test_macros.hpp>
#include <random>

using namespace pillion::unwind;

namespace {

constexpr char kText[] =
    "00400000-00401000 r--p 00000000 08:01 77                         /opt/app with space\n"
    "00401000-00405000 r-xp 00001000 08:01 77                         /opt/app with space\n"
    "7f0000000000-7f0000002000 r-xp 00003000 fe:02 91                 /lib/gone.so (deleted)\n"
    "7f0000010000-7f0000020000 rwxp 00000000 00:00 0 \n"
    "7ffe00000000-7ffe00021000 rw-p 00000000 00:00 0                  [stack]\n"
    "7ffe00100000-7ffe00102000 r-xp 00000000 00:00 0                  [vdso]\n"
    "ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0          [vsyscall]\n";

}  // namespace

TEST_CASE("the executable mappings are kept, with their files") {
  const auto maps = MapsTable::parse(kText);
  REQUIRE(maps.rejected_lines() == 0);
  REQUIRE(maps.mappings().size() == 5);
  const Mapping* app = maps.find(0x401000);
  REQUIRE(app != nullptr);
  CHECK(app->path == "/opt/app with space");
  CHECK(app->offset == 0x1000);
  CHECK(app->inode == 77);
  CHECK(app->device == makedev(8, 1));
  CHECK(app->kind == MappingKind::file);
  CHECK(maps.find(0x404fff) == app);
  CHECK(maps.find(0x405000) == nullptr);
  CHECK(maps.find(0x400800) == nullptr);
  CHECK(maps.find(0) == nullptr);
  const Mapping* gone = maps.find(0x7f0000000010);
  REQUIRE(gone != nullptr);
  CHECK(gone->path == "/lib/gone.so");
  CHECK(gone->deleted);
  CHECK(maps.find(0x7f0000010000)->kind == MappingKind::anonymous);
  CHECK(maps.find(0x7ffe00100000)->kind == MappingKind::vdso);
  CHECK(maps.find(0xffffffffff600400)->kind == MappingKind::vsyscall);
  CHECK(maps.find(~0ULL) == nullptr);
}

TEST_CASE("each parse has its own serial") {
  CHECK(MapsTable::parse(kText).serial() != MapsTable::parse(kText).serial());
}

TEST_CASE("malformed, overlapping and backward lines are left out and counted") {
  const std::string good = "1000-2000 r-xp 0 08:01 1 /a\n";
  for (const std::string bad : {"", "zz-10 r-xp 0 0:0 0 /x", "5000-4000 r-xp 0 08:01 1 /b",
                                "1800-3000 r-xp 0 08:01 1 /b", "500-600 r-xp 0 08:01 1 /b", "3000-4000 r-x",
                                "3000-4000 r-xp", "3000-4000 r-xp ffffffffffffffff 08:01 1 /b",
                                "3000-4000 r-xp 0 08:01", "11111111111111111111-4000 r-xp 0 08:01 1 /b"}) {
    CAPTURE(bad);
    const auto maps = MapsTable::parse(good + bad + "\n" + "9000-a000 r-xp 0 08:01 1 /c\n");
    CHECK(maps.rejected_lines() == 1);
    CHECK(maps.mappings().size() == 2);
  }
  const auto maps = MapsTable::parse(good + "3000-4000 r-xp 0 08:01 1 /" + std::string(5000, 'x') + "\n");
  CHECK(maps.rejected_lines() == 1);
}

TEST_CASE("mutated text never faults and never yields an unordered table") {
  std::mt19937 random(1);
  for (int round = 0; round < 3000; ++round) {
    std::string text = kText;
    for (unsigned change = 0; change < 1 + random() % 20; ++change)
      text[random() % text.size()] = static_cast<char>(random() % 128);
    text.resize(random() % (text.size() + 1));
    const auto maps = MapsTable::parse(text);
    std::uint64_t last = 0;
    for (const auto& mapping : maps.mappings()) {
      REQUIRE(mapping.start >= last);
      REQUIRE(mapping.end > mapping.start);
      last = mapping.end;
    }
  }
}
