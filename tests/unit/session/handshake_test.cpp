// SPDX-License-Identifier: Apache-2.0
// From connect to HELLO: whom a session accepts, and what it says of the others.
#include <sys/socket.h>
#include <unistd.h>

#include <filesystem>
#include <thread>

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include "fake_shim.h"

using namespace std::chrono_literals;
using namespace pillion;
using namespace pillion::session;

TEST_CASE("a good HELLO attaches") {
  Pair pair;
  pair.greet();
  REQUIRE(pair.told.hellos.size() == 1);
  CHECK(pair.told.hellos[0].comm == "train");
  CHECK(pair.session->peer_pid() == static_cast<std::uint32_t>(::getpid()));
  CHECK(pair.session->peer_uid() == ::geteuid());
  CHECK(pair.session->hello()->exe == "/usr/bin/train");
}

TEST_CASE("QUERY is answered by another HELLO, with the context by now") {
  Pair pair;
  pair.connect();
  auto hello = good_hello();
  hello.flags = 0;
  pair.shim.send(hello);
  pair.run_until([&] { return pair.told.hellos.size() == 1; });
  CHECK_FALSE(pair.session->hello()->has_context());
  pair.session->query();
  CHECK(pair.shim.receive().type == PILLION_QUERY);
  pair.shim.send(good_hello());
  pair.run_until([&] { return pair.told.hellos.size() == 2; });
  CHECK(pair.session->hello()->has_context());
  CHECK(pair.session->state() == SessionState::connected);
}

TEST_CASE("HELLO of a newer minor, with more in it, attaches") {
  Pair pair;
  pair.connect();
  auto hello = good_hello();
  hello.header.minor = 5;
  hello.header.size = sizeof(hello) + 100;
  std::vector<std::byte> bytes(hello.header.size);
  std::memcpy(bytes.data(), &hello, sizeof(hello));
  pair.shim.send_bytes(bytes);
  pair.run_until([&] { return pair.session->state() == SessionState::connected; });
}

TEST_CASE("another major is refused with both versions named") {
  Pair pair;
  pair.connect();
  auto hello = good_hello();
  hello.header.major = 2;
  hello.header.minor = 7;
  pair.shim.send(hello);
  const Gone& gone = pair.run_until_gone();
  CHECK(gone.reason == GoneReason::version);
  CHECK(gone.text.find("2.7") != std::string::npos);
  CHECK(gone.text.find("1." + std::to_string(PILLION_ABI_MINOR)) != std::string::npos);
}

TEST_CASE("a shim that refuses our version or our uid is quoted") {
  Pair pair;
  pair.connect();
  auto refused = make_message<pillion_refused>(PILLION_REFUSED);
  SECTION("version") {
    refused.reason = PILLION_REFUSAL_VERSION;
    std::memcpy(refused.text, "shim 1.0, sidecar 3.0", 22);
    pair.shim.send(refused);
    pair.shim.close();
    const Gone& gone = pair.run_until_gone();
    CHECK(gone.reason == GoneReason::version);
    CHECK(gone.text == "version: shim 1.0, sidecar 3.0");
  }
  SECTION("uid") {
    refused.reason = PILLION_REFUSAL_ACCESS;
    std::memcpy(refused.text, "uid 5", 6);
    pair.shim.send(refused);
    pair.shim.close();
    CHECK(pair.run_until_gone().reason == GoneReason::refused);
  }
}

TEST_CASE("what is not the wire is a protocol error") {
  Pair pair;
  pair.connect();
  auto hello = good_hello();
  SECTION("magic") {
    hello.header.magic ^= 1;
    pair.shim.send(hello);
  }
  SECTION("size") {
    hello.header.size = 16;
    pair.shim.send(hello);
  }
  SECTION("too small") {
    hello.header.size = 300;
    pair.shim.send_bytes(std::as_bytes(std::span(&hello, 1)).first(300));
  }
  SECTION("text of another service") {
    const std::string text = "220 smtp ready\r\n";
    pair.shim.send_bytes(std::as_bytes(std::span(text)));
  }
  SECTION("another message first") { pair.shim.send(make_message<pillion_armed>(PILLION_ARMED)); }
  SECTION("an oversized packet") { pair.shim.send_bytes(std::vector<std::byte>(PILLION_MESSAGE_MAX + 1)); }
  CHECK(pair.run_until_gone().reason == GoneReason::protocol);
}

TEST_CASE("BUSY names the holder") {
  Pair pair;
  pair.connect();
  auto busy = make_message<pillion_busy>(PILLION_BUSY);
  busy.holder_pid = 4'711;
  pair.shim.send(busy);
  pair.shim.close();
  const Gone& gone = pair.run_until_gone();
  CHECK(gone.reason == GoneReason::busy);
  CHECK(gone.holder_pid == 4'711);
  CHECK(gone.text.find("4711") != std::string::npos);
}

TEST_CASE("a shim of another uid is named; with its uid allowed it attaches") {
  SessionOptions options;
  options.own_uid = ::geteuid() + 1;
  SECTION("not allowed") {
    Pair pair(options);
    pair.session->connect();
    const Gone& gone = pair.run_until_gone();
    CHECK(gone.reason == GoneReason::unaccepted);
    CHECK(gone.uid == ::geteuid());
    CHECK(gone.text.find("-allow-uid " + std::to_string(::geteuid())) != std::string::npos);
  }
  SECTION("allowed") {
    options.allowed_uids = {::geteuid() + 5, ::geteuid()};
    Pair pair(options);
    pair.greet();
  }
}

TEST_CASE("nobody listens: stale, not an error") {
  Pair pair;
  SECTION("the owner has died") { pair.shim.stop_listening(); }
  SECTION("the socket has gone") { std::filesystem::remove(pair.shim.path()); }
  pair.session->connect();
  CHECK(pair.run_until_gone().reason == GoneReason::stale);
}

TEST_CASE("a link or a file in place of the socket is not connected to") {
  Pair pair;
  const std::string real = pair.shim.path() + ".real";
  std::filesystem::rename(pair.shim.path(), real);
  SECTION("link") { std::filesystem::create_symlink(real, pair.shim.path()); }
  SECTION("directory") { std::filesystem::create_directory(pair.shim.path()); }
  pair.session->connect();
  CHECK(pair.run_until_gone().reason == GoneReason::failed);
}

TEST_CASE("a path longer than sun_path connects all the same") {
  Pair pair;
  const auto parent = std::filesystem::path(pair.shim.path()).parent_path();
  const std::string deep = parent / std::string(100, 'd');
  std::filesystem::create_directory(deep);
  const std::string path = deep + "/" + std::string(100, 's');
  std::filesystem::rename(pair.shim.path(), path);
  pair.session = std::make_unique<Session>(*pair.loop, pair.told, pair.budget, SessionOptions{}, 2, path);
  pair.greet();
}

TEST_CASE("a frozen shim takes the connection and says nothing: timeout") {
  SessionOptions options;
  options.hello_timeout = 30ms;
  Pair pair(options);
  pair.session->connect();  // nobody accepts: the kernel connects us all the same
  CHECK(pair.run_until_gone().reason == GoneReason::timeout);
}

TEST_CASE("an answer that came while this process stood still is taken before its deadline is judged") {
  SessionOptions options;
  options.hello_timeout = 20ms;
  options.answer_timeout = 0ms;
  Pair pair(options);
  pair.connect();
  // The answer comes within a round of the loop, after it has looked at its sockets and before its deadlines.
  const auto stand_still = [&pair](const auto& message) {
    REQUIRE(pair.loop->post([&pair, message] {
      pair.shim.send(message);
      std::this_thread::sleep_for(60ms);  // stopped, starved
    }));
  };
  stand_still(good_hello());
  pair.run_until([&] { return pair.session->state() == SessionState::connected; });
  ArmConfig config = small_config();
  config.deadline_ms = 20;
  REQUIRE(pair.session->arm(config).has_value());
  auto armed = make_message<pillion_armed>(PILLION_ARMED);
  armed.generation = pair.session->generation();
  stand_still(armed);
  pair.run_until([&] { return pair.session->state() == SessionState::armed; });
  CHECK(pair.told.gone.empty());
}

TEST_CASE("a full backlog is waited for, up to the deadline") {
  SessionOptions options;
  options.hello_timeout = GENERATE(120ms, 10'000ms);
  Pair pair(options);
  std::vector<UniqueFd> others;
  while (true) {
    auto other = connect_to(pair.shim.path());
    if (!other) {
      REQUIRE(other.error().number == EAGAIN);
      break;
    }
    others.push_back(std::move(*other));
  }
  pair.session->connect();
  if (options.hello_timeout < 1s) {
    CHECK(pair.run_until_gone().reason == GoneReason::timeout);
    return;
  }
  for (std::size_t i = 0; i < others.size(); ++i) pair.shim.accept();
  pair.run_until([&] { return pair.shim.somebody_waits(); });
  pair.shim.accept();
  pair.shim.send(good_hello());
  pair.run_until([&] { return pair.session->state() == SessionState::connected; });
}

TEST_CASE("the observer may destroy the session in on_gone") {
  Pair pair;
  pair.greet();
  pair.told.when_gone = [&] { pair.session.reset(); };
  pair.shim.close();
  pair.run_until([&] { return !pair.told.gone.empty(); });
  CHECK(pair.session == nullptr);
  CHECK_FALSE(pair.loop->run_once(0ms));
}

TEST_CASE("fds that nobody asked for are closed and counted") {
  Pair pair;
  pair.connect();
  const std::vector<int> three(3, pair.shim.peer());
  const std::vector<int> many(60, pair.shim.peer());
  pair.shim.send(good_hello(), three);
  pair.run_until([&] { return pair.session->state() == SessionState::connected; });
  CHECK(pair.session->counters().surplus_fds == 3);
  pair.shim.send(good_hello(), many);  // the kernel closes those for which there is no room
  pair.run_until([&] { return pair.told.hellos.size() == 2; });
  CHECK(pair.session->counters().surplus_fds > 3);
  // Had one copy of the shim's end been kept open, its close would not be seen.
  pair.shim.close();
  CHECK(pair.run_until_gone().reason == GoneReason::closed);
}

TEST_CASE("messages of a type that is not known are skipped and counted") {
  Pair pair;
  pair.greet();
  pair.shim.send(make_message<pillion_query>(50));
  pair.shim.send(make_message<pillion_query>(PILLION_ARM));  // ours, back to us
  pair.shim.send(good_hello());
  pair.run_until([&] { return pair.told.hellos.size() == 2; });
  CHECK(pair.session->counters().unknown_messages == 2);
}
