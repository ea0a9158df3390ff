// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <catch2/catch_test_macros.hpp>
#include <nlohmann/json.hpp>

#include "base/log.h"
#include "http/fake_service.h"
#include "http/raw_client.h"
#include "http/server.h"

namespace pillion::http {

// A server on free ports of loopback, on the fake service.
struct ServerFixture {
  explicit ServerFixture(std::size_t windows_max = 16) {
    set_log_level(LogLevel::warning);
    ServerConfig config;
    config.listen = {"127.0.0.1", 0, {}};
    config.health_listen = ListenAddress{"127.0.0.1", 0, {}};
    config.windows_max = windows_max;
    config.page = kPage;
    auto made = Server::create(config, service);
    REQUIRE(made);
    server = std::move(*made);
  }

  RawResponse get(std::string_view target) const { return RawClient(server->port()).get(target); }

  static constexpr StaticFile kPage[] = {{"/", "text/html; charset=utf-8", "<p>the page"},
                                         {"/web/page.js", "text/javascript; charset=utf-8", "let script;"}};

  FakeService service;  // first: the server uses it
  std::unique_ptr<Server> server;
};

// {"error":{"code"}} of an answer, "" when it is no error in that form.
[[nodiscard]] inline std::string error_code(const RawResponse& response) {
  const auto body = nlohmann::json::parse(response.body, nullptr, false);
  if (!body.is_object() || !body.contains("error")) return "";
  const auto& error = body["error"];
  const bool complete = error.contains("code") && error.contains("message") && error.contains("hint");
  return complete ? error["code"].get<std::string>() : "";
}

}  // namespace pillion::http
