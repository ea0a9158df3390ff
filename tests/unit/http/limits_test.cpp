// SPDX-License-Identifier: Apache-2.0
// The limits of Connections, made small. No head is ever complete here.
#include <catch2/catch_test_macros.hpp>

#include "http/connections.h"
#include "http/listen_address.h"
#include "http/raw_client.h"

namespace pillion::http {
namespace {

class Limited {
 public:
  explicit Limited(const ConnectionLimits& limits) {
    auto listener = open_listener({"127.0.0.1", 0, {}});
    REQUIRE(listener);
    port_ = bound_port(*listener).value();
    auto made = Connections::create(std::move(*listener), limits, [](Connection&) { std::abort(); });
    REQUIRE(made);
    connections_ = std::move(*made);
    connections_->start();
  }

  [[nodiscard]] std::uint16_t port() const { return port_; }

 private:
  std::uint16_t port_ = 0;
  std::unique_ptr<Connections> connections_;
};

TEST_CASE("a head that does not end is 408") {
  ConnectionLimits limits;
  limits.head_time = std::chrono::milliseconds(200);
  const Limited server(limits);
  RawClient client(server.port());
  REQUIRE(client.send("GET / HTTP/1.1\r\n"));
  CHECK(client.receive().status == 408);
  CHECK(client.at_end());
}

TEST_CASE("a connection that says nothing is closed without a word") {
  ConnectionLimits limits;
  limits.idle_time = std::chrono::milliseconds(200);
  const Limited server(limits);
  RawClient client(server.port());
  CHECK(client.at_end());
}

TEST_CASE("past the limit of connections the one that waited longest goes") {
  ConnectionLimits limits;
  limits.connections = 3;
  limits.head_bytes = 100;
  const Limited server(limits);
  std::vector<RawClient> clients;
  for (int i = 0; i < 4; ++i) clients.emplace_back(server.port());
  CHECK(clients[0].at_end());
  for (int i = 1; i < 4; ++i) {
    REQUIRE(clients[static_cast<std::size_t>(i)].send(std::string(101, 'x')));
    CHECK(clients[static_cast<std::size_t>(i)].receive().status == 431);
  }
}

}  // namespace
}  // namespace pillion::http
