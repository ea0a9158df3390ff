// SPDX-License-Identifier: Apache-2.0
#include "http/listen_address.h"

#include <catch2/catch_test_macros.hpp>

namespace pillion::http {
namespace {

TEST_CASE("listen addresses parse, and know whether other machines reach them") {
  struct Case {
    const char* text;
    const char* as_text;
    bool local;
  };
  for (const auto& [text, as_text, local] :
       {Case{"127.0.0.1:7070", "127.0.0.1:7070", true}, Case{"localhost:0", "127.0.0.1:0", true},
        Case{"[::1]:65535", "[::1]:65535", true}, Case{":7070", "0.0.0.0:7070", false},
        Case{"unix:/run/x y.sock", "unix:/run/x y.sock", true}, Case{"[::]:1", "[::]:1", false},
        Case{"10.1.2.3:80", "10.1.2.3:80", false}}) {
    INFO(text);
    const auto address = parse_listen_address(text);
    REQUIRE(address);
    CHECK(address->text() == as_text);
    CHECK(address->local() == local);
  }
}

TEST_CASE("what is no address is an error that names it") {
  for (const char* text : {"", "127.0.0.1", "127.0.0.1:", "127.0.0.1:65536", "127.0.0.1:-1",
                           "127.0.0.1:7070x", "::1:7070", "[::1]", "[::1]7070", "[::1:7070", "example.com:80",
                           "127.0.1:80", "a:b:c", "unix:", "unix:relative", "unix:@abstract"}) {
    INFO(text);
    const auto address = parse_listen_address(text);
    REQUIRE_FALSE(address);
    CHECK(address.error().message().find(text) != std::string::npos);
  }
}

TEST_CASE("a unix socket's path has its longest length") {
  CHECK(parse_listen_address("unix:/" + std::string(106, 'x')));
  const auto longer = parse_listen_address("unix:/" + std::string(107, 'x'));
  REQUIRE_FALSE(longer);
  CHECK(longer.error().message().find("107 bytes") != std::string::npos);
}

TEST_CASE("a port that is taken is an error, not a shared port") {
  const auto first = open_listener({"127.0.0.1", 0, {}});
  REQUIRE(first);
  const auto port = bound_port(*first);
  REQUIRE(port);
  CHECK(*port != 0);
  const auto second = open_listener({"127.0.0.1", *port});
  REQUIRE_FALSE(second);
  CHECK(second.error().number == EADDRINUSE);
}

}  // namespace
}  // namespace pillion::http
