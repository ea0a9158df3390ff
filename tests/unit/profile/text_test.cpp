// SPDX-License-Identifier: Apache-2.0
#include "profile/text.h"

#include <catch2/catch_test_macros.hpp>

#include "profile/api_names.h"

namespace pillion::profile {
namespace {

TEST_CASE("clean_text keeps valid UTF-8 and replaces the rest") {
  CHECK(clean_text("plain") == "plain");
  CHECK(clean_text("gr\xc3\xbc\xc3\x9f \xf0\x9f\x98\x80") == "gr\xc3\xbc\xc3\x9f \xf0\x9f\x98\x80");
  const std::string bad = "\xef\xbf\xbd";
  CHECK(clean_text("a\xff"
                   "b") == "a" + bad + "b");
  CHECK(clean_text("\xc0\xaf") == bad + bad);                      // overlong
  CHECK(clean_text("\xed\xa0\x80") == bad + bad + bad);            // surrogate
  CHECK(clean_text("\xf4\x90\x80\x80") == bad + bad + bad + bad);  // beyond U+10FFFF
  CHECK(clean_text("\xe2\x82") == bad + bad);                      // cut short
  CHECK(clean_text(std::string("a\0b\nc", 5)) == "a b c");
}

TEST_CASE("clean_text cuts between characters") {
  CHECK(clean_text("abcdefgh", 8) == "abcdefgh");
  CHECK(clean_text("abcdefghi", 8) == "abcde...");
  CHECK(clean_text("abcd\xc3\xbc\xc3\xbc\xc3\xbc", 8) == "abcd...");
  CHECK(clean_text(std::string(1u << 20, 'x')).size() == kTextBytesMax);
}

TEST_CASE("TextTable gives one id to texts that come out equal") {
  std::vector<std::string> texts{""};
  TextTable table(texts);
  CHECK(table.id("") == 0);
  const TextId id = table.id("a\x01z");
  CHECK(table.id("a z") == id);
  CHECK(table.id("b") != id);
  CHECK(texts.at(id) == "a z");
}

TEST_CASE("API calls and copies are named as the application's source spells them") {
  CHECK(api_name(307) == "cuLaunchKernel");
  CHECK(api_name(442) == "cuLaunchKernel");
  CHECK(api_name(652) == "cuLaunchKernelEx");
  CHECK(api_name(514) == "cuGraphLaunch");
  CHECK(api_name(277) == "cuMemcpyHtoDAsync");
  CHECK(api_name(429) == "cuMemsetD16Async");
  CHECK(api_name(1) == "driver call 1");
  CHECK(api_name(4'000'000'000u) == "driver call 4000000000");
  CHECK(copy_name(1) == "[memcpy HtoD]");
  CHECK(copy_name(10) == "[memcpy PtoP]");
  CHECK(copy_name(99) == "[memcpy kind 99]");
}

}  // namespace
}  // namespace pillion::profile
