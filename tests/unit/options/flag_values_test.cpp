// SPDX-License-Identifier: Apache-2.0
#include "flag_values.h"

#include <catch2/catch_test_macros.hpp>

namespace pillion {
namespace {

using namespace std::chrono_literals;

TEST_CASE("durations are read as Go reads them") {
  const std::pair<const char*, std::chrono::nanoseconds> cases[] = {
      {"500ms", 500ms}, {"20s", 20s},     {"2m", 2min},   {"1h", 1h},
      {"1h30m", 90min}, {"1.5s", 1500ms}, {"0", 0ns},     {"0s", 0ns},
      {"100us", 100us}, {"7ns", 7ns},     {".5s", 500ms}, {"1m1s1ms", 61'001ms}};
  for (const auto& [text, value] : cases) {
    INFO(text);
    const auto duration = parse_duration(text);
    REQUIRE(duration);
    CHECK(*duration == value);
  }
  for (const char* text :
       {"", "5", "s", "-1s", "+1s", "1 s", "1s ", "1x", "1.2.3s", "1e3s", "99999999h", "nans", "1µs"}) {
    INFO(text);
    CHECK_FALSE(parse_duration(text));
  }
}

TEST_CASE("a formatted duration is read back the same") {
  for (const auto value : {0ns, 7ns, std::chrono::nanoseconds(500ms), std::chrono::nanoseconds(90min),
                           std::chrono::nanoseconds(24h), std::chrono::nanoseconds(61'001ms)}) {
    INFO(format_duration(value));
    CHECK(parse_duration(format_duration(value)) == value);
  }
}

TEST_CASE("sizes") {
  CHECK(parse_bytes_within("128MiB", 0, 1ull << 40) == 128ull << 20);
  CHECK(parse_bytes_within("1GiB", 0, 1ull << 40) == 1ull << 30);
  CHECK(parse_bytes_within("512KiB", 0, 1ull << 40) == 512ull << 10);
  CHECK(parse_bytes_within("4096", 0, 1ull << 40) == 4096u);
  for (const char* text : {"", "MiB", "1MB", "1.5MiB", "-1", "1024KiB1", "18446744073709551615GiB"}) {
    INFO(text);
    CHECK_FALSE(parse_bytes_within(text, 0, 1ull << 40));
  }
  CHECK_FALSE(parse_bytes_within("1023", 1024, 4096));
  CHECK_FALSE(parse_bytes_within("5KiB", 1024, 4096));
}

TEST_CASE("powers of two") {
  CHECK(parse_power_of_two_within("512", 4, 65'536) == 512u);
  for (const char* text : {"0", "2", "500", "131072", "x"}) {
    INFO(text);
    CHECK_FALSE(parse_power_of_two_within(text, 4, 65'536));
  }
}

}  // namespace
}  // namespace pillion
