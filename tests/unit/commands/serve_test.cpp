// SPDX-License-Identifier: Apache-2.0
// serve and probe, as command lines in this process, on a fake runtime.
#include <catch2/catch_test_macros.hpp>

#include "commands/command_fixture.h"
#include "http/client.h"
#include "http/listen_address.h"

namespace pillion::commands {
namespace {

using std::chrono::milliseconds;

// A port that is free now. Somebody else could take it before it is used; the kernel hands them out in turns.
std::string free_address() {
  const auto listener = http::open_listener({"127.0.0.1", 0, {}});
  REQUIRE(listener);
  return "127.0.0.1:" + std::to_string(http::bound_port(*listener).value());
}

bool answers(const std::string& address) {
  const auto server = http::parse_listen_address(address).value();
  const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while (std::chrono::steady_clock::now() < limit) {
    if (http::http_get(server, "/healthz", milliseconds(500))) return true;
  }
  return false;
}

TEST_CASE_METHOD(CommandFixture, "serve answers, and SIGTERM ends it, with a window open, within 2 s") {
  const auto address = free_address();
  auto serving = start({"serve", "-listen", address});
  REQUIRE(answers(address));
  const auto server = http::parse_listen_address(address).value();
  auto window = std::async(std::launch::async, [&] {
    return http::http_get(server, "/profile?seconds=3600", std::chrono::seconds(10));
  });
  REQUIRE(script.service.wait_open(1));
  const auto signalled = std::chrono::steady_clock::now();
  ::kill(::getpid(), SIGTERM);
  REQUIRE(finished(serving));
  CHECK(serving.get() == kDone);
  CHECK(std::chrono::steady_clock::now() - signalled < std::chrono::seconds(2));
  const auto reply = window.get();
  REQUIRE(reply);
  CHECK(reply->body == "profile of gpu");
  CHECK(script.stops == 1);
}

TEST_CASE_METHOD(CommandFixture, "serve without a shim answers while it waits, then ends with 3") {
  const auto address = free_address();
  script.shim_comes = false;
  script.service.set_ready({false, "no shim yet"});
  auto serving = start({"serve", "-listen", address, "-wait-for-shim", "700ms"});
  REQUIRE(answers(address));
  CHECK(run({"probe", "live", "-listen", address, "-log-level", "error"}, factory()) == kDone);
  CHECK(run({"probe", "ready", "-listen", address, "-log-level", "error"}, factory()) == kNoShim);
  REQUIRE(finished(serving));
  CHECK(serving.get() == kNoShim);
  CHECK(script.stops == 1);
}

TEST_CASE_METHOD(CommandFixture, "serve waits for ever with -wait-for-shim 0, until a signal") {
  const auto address = free_address();
  script.shim_comes = false;
  auto serving = start({"serve", "-listen", address, "-wait-for-shim", "0"});
  REQUIRE(answers(address));
  ::kill(::getpid(), SIGINT);
  REQUIRE(finished(serving));
  CHECK(serving.get() == kDone);
}

TEST_CASE_METHOD(CommandFixture, "serve -exit-with-workload ends with the workload") {
  const auto address = free_address();
  auto serving = start({"serve", "-listen", address, "-exit-with-workload"});
  REQUIRE(answers(address));
  script.workload_end.request_stop();
  REQUIRE(finished(serving));
  CHECK(serving.get() == kDone);
}

TEST_CASE_METHOD(CommandFixture, "serve -exit-with-workload ends with a workload that never used CUDA") {
  script.shim_comes = false;
  script.target_gone = true;
  CHECK(start({"serve", "-listen", free_address(), "-exit-with-workload", "-wait-for-shim=0"}).get() ==
        kDone);
}

TEST_CASE_METHOD(CommandFixture,
                 "serve on a port that is taken, or with a runtime that does not start, ends with 1") {
  const auto listener = http::open_listener({"127.0.0.1", 0, {}});
  REQUIRE(listener);
  const auto address = "127.0.0.1:" + std::to_string(http::bound_port(*listener).value());
  set_log_level(LogLevel::error);
  CHECK(start({"serve", "-listen", address}).get() == kInternal);
  script.start_fails = true;
  CHECK(start({"serve", "-listen", free_address()}).get() == kInternal);
}

TEST_CASE_METHOD(CommandFixture, "probe answers by its exit code") {
  const auto address = free_address();
  const auto probe_for = [&](const char* what) {
    return run({"probe", what, "-url", "http://" + address, "-log-level", "error"}, factory());
  };
  CHECK(probe_for("live") == kInternal);  // nobody listens
  auto serving = start({"serve", "-listen", address});
  REQUIRE(answers(address));
  CHECK(probe_for("live") == kDone);
  CHECK(probe_for("ready") == kDone);
  script.service.set_ready({false, "gone"});
  script.service.set_alive({false, "stuck"});
  CHECK(probe_for("ready") == kNoShim);
  CHECK(probe_for("live") == kInternal);
  ::kill(::getpid(), SIGTERM);
  REQUIRE(finished(serving));
}

TEST_CASE_METHOD(CommandFixture, "a usage error ends with 2 and starts nothing") {
  CHECK(run({"serve", "-duration", "5s"}, factory()) == kUsage);
  CHECK(run({"-pid", "0"}, factory()) == kUsage);
  CHECK(script.stops == 0);
}

}  // namespace
}  // namespace pillion::commands
