// SPDX-License-Identifier: Apache-2.0
// The workload may die, or say goodbye, in any state.
#include <catch2/catch_test_macros.hpp>

#include "fake_shim.h"

using namespace std::chrono_literals;
using namespace pillion;
using namespace pillion::session;

TEST_CASE("the peer closes in every state") {
  Pair pair;
  SECTION("before HELLO") {
    pair.connect();
    pair.shim.close();
    CHECK(pair.run_until_gone().reason == GoneReason::closed);
    CHECK(pair.told.hellos.empty());
  }
  SECTION("connected") {
    pair.greet();
    pair.shim.close();
    CHECK(pair.run_until_gone().reason == GoneReason::closed);
  }
  SECTION("arming, with ARM unread") {
    pair.greet();
    REQUIRE(pair.session->arm(small_config()).has_value());
    pair.shim.close();
    CHECK(pair.run_until_gone().reason == GoneReason::closed);
    CHECK(pair.told.armed.empty());
  }
  SECTION("armed") {
    pair.greet();
    pair.arm(small_config());
    pair.shim.close();
    CHECK(pair.run_until_gone().reason == GoneReason::closed);
    // What it had written stays readable.
    REQUIRE(pair.session->memory() != nullptr);
    CHECK(pair.session->memory()->rings().counters->launches == 0);
    CHECK(pair.budget->sessions() == 1);
    pair.session->drop_memory();
    CHECK(pair.budget->sessions() == 0);
  }
  SECTION("lingering") {
    pair.greet();
    pair.arm(small_config());
    pair.session->disarm(true, 10s);
    pair.shim.close();
    CHECK(pair.run_until_gone().reason == GoneReason::closed);
  }
  SECTION("draining") {
    pair.greet();
    pair.arm(small_config());
    pair.session->disarm(true);
    pair.shim.close();
    CHECK(pair.run_until_gone().reason == GoneReason::closed);
    CHECK(pair.told.disarmed.empty());
  }
  CHECK_FALSE(pair.session->arm(small_config()).has_value());
  CHECK_FALSE(pair.session->keep_armed());
  pair.session->query();  // nothing happens
  pair.session->disarm(true);
  CHECK_FALSE(pair.loop->run_once(0ms));
}

TEST_CASE("last words before the end are heard, though our packets were not read") {
  Pair pair;
  pair.greet();
  pair.arm(small_config());
  pair.session->query();  // stays unread: the close then shows as a reset in front of the last words
  auto disarmed = make_message<pillion_disarmed>(PILLION_DISARMED);
  disarmed.generation = pair.session->generation();
  disarmed.reason = PILLION_DISARM_EXIT;
  pair.shim.send(disarmed);
  pair.shim.close();
  CHECK(pair.run_until_gone().reason == GoneReason::closed);
  REQUIRE(pair.told.disarmed.size() == 1);
  CHECK(pair.told.disarmed[0].reason == PILLION_DISARM_EXIT);
}

TEST_CASE("no answer to ARM or DISARM in time ends the session") {
  SessionOptions options;
  options.answer_timeout = 20ms;
  Pair pair(options);
  pair.greet();
  SECTION("ARM") {
    ArmConfig config = small_config();
    config.deadline_ms = 10;
    REQUIRE(pair.session->arm(config).has_value());
  }
  SECTION("DISARM") {
    pair.arm(small_config());
    pair.session->disarm(false);
  }
  const Gone& gone = pair.run_until_gone();
  CHECK(gone.reason == GoneReason::timeout);
  CHECK(gone.text.find("ARMED") != std::string::npos);
}

TEST_CASE("a session destroyed while everything is in flight leaves nothing behind") {
  Pair pair;
  pair.greet();
  pair.arm(small_config());
  int failed = 0;
  pair.session->flush(false, 60s, [&](const Result<Flushed>& answer) { failed += answer ? 0 : 1; });
  pair.session->get_file(1, 60s, [&](const Result<ReceivedFile>& answer) { failed += answer ? 0 : 1; });
  pair.session->disarm(true, 60s);
  pair.session.reset();
  CHECK(failed == 2);
  CHECK(pair.budget->sessions() == 0);
  CHECK_FALSE(pair.loop->run_once(0ms));
}

TEST_CASE("a flood of messages does not keep the loop from others") {
  Pair pair;
  pair.greet();
  int beats = 0;
  pair.loop->every(1ms, [&] { ++beats; });
  for (int i = 0; i < 100; ++i) {
    for (int k = 0; k < 8; ++k) pair.shim.send(make_message<pillion_query>(50));
    (void)pair.loop->run_once(0ms);
  }
  pair.run_until([&] { return pair.session->counters().unknown_messages == 800 && beats > 0; });
}
