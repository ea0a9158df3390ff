// SPDX-License-Identifier: Apache-2.0
#include "base/printable.h"

#include <catch2/catch_test_macros.hpp>

using pillion::printable;

TEST_CASE("text that is safe already is left alone") {
  CHECK(printable("python3 train.py") == "python3 train.py");
  CHECK(printable("\u00fcber \u20ac \U0001F680") == "\u00fcber \u20ac \U0001F680");
  CHECK(printable("").empty());
}

TEST_CASE("control characters, overlong, surrogate and cut sequences become question marks") {
  CHECK(printable("a\n\x1b[31m\x7f") == "a??[31m?");
  CHECK(printable(std::string_view("\0x", 2)) == "?x");
  CHECK(printable("\xc0\xaf") == "??");            // overlong '/'
  CHECK(printable("\xe0\x80\xaf") == "???");       // overlong
  CHECK(printable("\xed\xa0\x80") == "???");       // surrogate
  CHECK(printable("\xf4\x90\x80\x80") == "????");  // past U+10FFFF
  CHECK(printable("ok\xe2\x82") == "ok??");        // cut
  CHECK(printable("\xff\xfe") == "??");
}
