// SPDX-License-Identifier: Apache-2.0
#include "base/capture_settings.h"

#include <catch2/catch_test_macros.hpp>

namespace pillion {
namespace {

TEST_CASE("kinds are read by name") {
  CHECK(parse_kinds("all") == std::uint32_t{PILLION_KIND_ALL});
  CHECK(parse_kinds("kernel") == std::uint32_t{PILLION_KIND_KERNEL});
  CHECK(parse_kinds("memcpy,kernel,stacks") == std::uint32_t{PILLION_KIND_KERNEL | PILLION_KIND_MEMCPY |
                                                             PILLION_KIND_PEER_COPY | PILLION_KIND_STACKS});
  for (const char* text : {"", "all,kernel", "kernels", "kernel,", ",kernel", "KERNEL", "kernel memcpy",
                           "stacks", "overhead,modules"}) {
    INFO(text);
    CHECK_FALSE(parse_kinds(text));
  }
}

TEST_CASE("kinds in words are read back the same") {
  for (std::uint32_t kinds = 1; kinds <= PILLION_KIND_ALL; ++kinds) {
    const auto again = parse_kinds(kinds_text(kinds));
    if (again) CHECK(*again == kinds);
  }
  CHECK(kinds_text(PILLION_KIND_ALL) == "kernel,memcpy,memset,overhead,stacks,modules,python,sync,calls");
  CHECK(kinds_text(0) == "none");
  CHECK(kinds_text(PILLION_KIND_MEMCPY) == "memcpy-on-one-device");
  CHECK(kinds_text(PILLION_KIND_KERNEL | 1u << 19) == "kernel,number 524288");
}

TEST_CASE("percentages have two decimals") {
  CHECK(parse_permyriad("1") == 100u);
  CHECK(parse_permyriad("0.01") == 1u);
  CHECK(parse_permyriad(".5") == 50u);
  CHECK(parse_permyriad("1.00") == 100u);
  CHECK(parse_permyriad("2.250") == 225u);
  CHECK(parse_permyriad("100") == 10'000u);
  for (const char* text :
       {"", ".", "0", "0.001", "0.005", "100.01", "1%", "-1", "nan", "1e1", "1.2.3", "0001"}) {
    INFO(text);
    CHECK_FALSE(parse_permyriad(text));
  }
  for (std::uint32_t permyriad = 1; permyriad <= 10'000; ++permyriad) {
    REQUIRE(parse_permyriad(percent_text(permyriad)) == permyriad);
  }
}

TEST_CASE("a wish changes what it names, and nothing else") {
  SettingsWish wish;
  CHECK_FALSE(wish.any());
  CHECK(wish.applied_to({}) == CaptureSettings{});
  wish.stack_bytes_max = 4096;
  CHECK(wish.any());
  CaptureSettings expected;
  expected.stack_bytes_max = 4096;
  CHECK(wish.applied_to({}) == expected);
}

TEST_CASE("a difference names what is in force and what was asked for") {
  CaptureSettings asked;
  asked.stack_bytes_max = 1024;
  asked.finalize = false;
  CHECK(settings_difference(CaptureSettings{}, asked) ==
        "stack-bytes is 196608, not 1024; finalize is auto, not never");
  CHECK(settings_difference(asked, asked).empty());
  CaptureSettings without_python = asked;
  without_python.kinds &= ~std::uint32_t{PILLION_KIND_PYTHON};
  CHECK(settings_difference(without_python, asked).empty());
}

}  // namespace
}  // namespace pillion
