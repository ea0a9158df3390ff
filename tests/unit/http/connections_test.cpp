// SPDX-License-Identifier: Apache-2.0
// Clients that are slow, idle, many, rude or gone.
#include <catch2/catch_test_macros.hpp>

#include <algorithm>
#include <future>
#include <thread>

#include "http/server_fixture.h"

namespace pillion::http {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

TEST_CASE_METHOD(ServerFixture, "a client that hangs up ends its window within 200 ms, and only its own") {
  RawClient stays(server->port());
  REQUIRE(stays.send(get_request("/profile?seconds=3600")));
  REQUIRE(service.wait_open(1));
  RawClient leaves(server->port());
  REQUIRE(leaves.send(get_request("/profile?seconds=3600")));
  REQUIRE(service.wait_open(2));

  const auto start = Clock::now();
  leaves.hang_up();
  REQUIRE(service.wait_ended(1));
  CHECK(Clock::now() - start < milliseconds(200));
  CHECK(service.wait_open(1));
  CHECK(service.stopped() == 1);
  service.release_windows();
  CHECK(stays.receive().status == 200);
}

TEST_CASE_METHOD(ServerFixture, "a client that closes its sending side counts as gone") {
  RawClient client(server->port());
  REQUIRE(client.send(get_request("/profile?seconds=3600")));
  REQUIRE(service.wait_open(1));
  client.half_close();
  REQUIRE(service.wait_ended(1));
  CHECK(client.receive().status == 200);  // what the window held is still sent
}

TEST_CASE_METHOD(ServerFixture, "overlapping requests each get their own full window") {
  const auto take = [&] {
    const auto start = Clock::now();
    const auto status = get("/profile?seconds=1").status;
    return std::pair(status, Clock::now() - start);
  };
  std::vector<std::future<std::pair<int, Clock::duration>>> clients;
  for (int i = 0; i < 3; ++i) {
    clients.push_back(std::async(std::launch::async, take));
    REQUIRE(service.wait_open(i + 1));
  }
  for (auto& client : clients) {
    const auto [status, took] = client.get();
    CHECK(status == 200);
    CHECK(took >= milliseconds(1000));
  }
  CHECK(service.stopped() == 0);
}

TEST_CASE("one window more than the limit is 429, and a window that ended makes room") {
  ServerFixture fixture(2);
  std::vector<RawClient> clients;
  for (int i = 0; i < 2; ++i) {
    clients.emplace_back(fixture.server->port());
    REQUIRE(clients.back().send(get_request("/profile?seconds=3600")));
    REQUIRE(fixture.service.wait_open(i + 1));
  }
  const auto refused = fixture.get("/profile?seconds=1");
  CHECK(refused.status == 429);
  CHECK(error_code(refused) == "too_many_windows");
  CHECK(fixture.get("/healthz").status == 200);
  clients[0].hang_up();
  REQUIRE(fixture.service.wait_ended(1));
  // The slot is free once the answer to nobody has failed, shortly after the window's end.
  const auto limit = Clock::now() + std::chrono::seconds(5);
  int status = 429;
  fixture.service.release_windows();
  while (status == 429 && Clock::now() < limit) status = fixture.get("/profile?seconds=1").status;
  CHECK(status == 200);
}

TEST_CASE_METHOD(ServerFixture, "a reader that takes nothing of its profile does not stop the others") {
  service.release_windows();
  service.set_body(std::string(16 << 20, 'x'));
  std::vector<RawClient> stuck;
  for (int i = 0; i < 3; ++i) {
    stuck.emplace_back(server->port());
    REQUIRE(stuck.back().send(get_request("/profile?seconds=1")));
  }
  REQUIRE(service.wait_ended(3));
  CHECK(get("/healthz").status == 200);
  const auto start = Clock::now();
  server->stop();
  CHECK(Clock::now() - start < std::chrono::seconds(2));
}

TEST_CASE_METHOD(ServerFixture, "a header of 1 MB is 431, also in pieces, and the server goes on") {
  RawClient client(server->port());
  REQUIRE(client.send("GET /healthz HTTP/1.1\r\nHost: localhost\r\nX: "));
  const std::string piece(10'000, 'a');
  for (int i = 0; i < 105; ++i) client.send(piece);  // may fail once the server has answered
  client.send("\r\n\r\n");
  const auto response = client.receive();
  CHECK(response.status == 431);
  CHECK(error_code(response) == "header_too_large");
  CHECK(get("/healthz").status == 200);
}

TEST_CASE_METHOD(ServerFixture, "many headers, a long header, a long target and garbage are refused") {
  std::string many = "GET /healthz HTTP/1.1\r\n";
  for (int i = 0; i < 20'000; ++i) many += "A: b\r\n";
  const std::pair<std::string, int> cases[] = {
      {many + "\r\n", 431},
      {"GET /healthz HTTP/1.1\r\nX: " + std::string(20'000, 'a') + "\r\n\r\n", 400},
      {"GET /" + std::string(20'000, 'a') + " HTTP/1.1\r\n\r\n", 414},
      {"hello\r\n\r\n", 400},
      {"GET\r\n\r\n", 400},
      {"GET / HTTP/9.9\r\n\r\n", 400},
      {std::string("\0\1\2\3\r\n\r\n", 8), 400},
      {"\x16\x03\x01\x02\r\n\r\n", 400}};
  for (const auto& [bytes, status] : cases) {
    INFO(bytes.substr(0, 40));
    RawClient client(server->port());
    client.send(bytes);
    const auto response = client.receive();
    CHECK(response.status == status);
    CHECK_FALSE(error_code(response).empty());
    CHECK(client.at_end());
  }
  CHECK(get("/healthz").status == 200);
}

TEST_CASE_METHOD(ServerFixture, "a Range of many parts does not multiply the answer") {
  service.release_windows();
  service.set_body(std::string(100'000, 'x'));
  std::string ranges = "0-";
  for (int i = 0; i < 2'000; ++i) ranges += ",0-";
  RawClient client(server->port());
  REQUIRE(client.send("GET /profile?seconds=1 HTTP/1.1\r\nHost: localhost\r\nRange: bytes=" + ranges +
                      "\r\n\r\n"));
  const auto response = client.receive();
  CHECK(response.status == 200);
  CHECK(response.body.size() == 100'000);
}

TEST_CASE_METHOD(ServerFixture, "a connection serves several requests, also sent at once") {
  RawClient client(server->port());
  CHECK(client.get("/healthz").status == 200);
  CHECK(client.get("/nope").status == 404);
  REQUIRE(client.send(get_request("/healthz") + get_request("/readyz") + get_request("/nope")));
  CHECK(client.receive().status == 200);
  CHECK(client.receive().status == 200);
  CHECK(client.receive().status == 404);
}

TEST_CASE_METHOD(ServerFixture, "the body of a GET is no second request") {
  RawClient client(server->port());
  const auto smuggled = get_request("/status");
  REQUIRE(client.send("GET /healthz HTTP/1.1\r\nHost: localhost\r\nContent-Length: " +
                      std::to_string(smuggled.size()) + "\r\n\r\n" + smuggled));
  CHECK(client.receive().body == "ok\n");
  CHECK(client.at_end());
}

TEST_CASE_METHOD(ServerFixture,
                 "200 idle connections and 100 half-sent requests leave /healthz within 100 ms") {
  std::vector<RawClient> idle;
  for (int i = 0; i < 200; ++i) {
    idle.emplace_back(server->port());
    REQUIRE(idle.back().connected());
    if (i % 2 == 0) REQUIRE(idle.back().get("/healthz").status == 200);  // half of them have had an answer
  }
  for (int i = 0; i < 100; ++i) {
    idle.emplace_back(server->port());
    REQUIRE(idle.back().send("GET /profile HTTP/1.1\r\nHost:"));
  }
  std::vector<Clock::duration> times;
  for (int i = 0; i < 200; ++i) {
    const auto start = Clock::now();
    REQUIRE(get("/healthz").status == 200);
    REQUIRE(RawClient(server->health_port()).get("/healthz").status == 200);
    times.push_back((Clock::now() - start) / 2);
  }
  std::sort(times.begin(), times.end());
  const auto ms = [](Clock::duration time) {
    return std::chrono::duration<double, std::milli>(time).count();
  };
  WARN("/healthz beside 300 idle connections: median " << ms(times[100]) << " ms, worst " << ms(times[199])
                                                       << " ms");
  // All but two: on a shared build machine a test may lose the processor for longer than that.
  CHECK(times[197] < milliseconds(100));
  for (int i = 0; i < 200; ++i) {
    if (i % 50 == 0) CHECK(idle[i].get("/healthz").status == 200);  // and they are still served
  }
}

TEST_CASE_METHOD(ServerFixture, "stop ends open windows, which still answer, and closes the port") {
  RawClient client(server->port());
  REQUIRE(client.send(get_request("/profile?seconds=3600")));
  REQUIRE(service.wait_open(1));
  RawClient idle(server->port());
  REQUIRE(idle.get("/healthz").status == 200);  // taken from the listener: one in its queue would be reset
  const auto start = Clock::now();
  const auto port = server->port();
  server->stop();
  CHECK(Clock::now() - start < std::chrono::seconds(2));
  CHECK(client.receive().body == "profile of gpu");
  CHECK(idle.at_end());
  CHECK_FALSE(RawClient(port).connected());
}

}  // namespace
}  // namespace pillion::http
