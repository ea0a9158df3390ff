// SPDX-License-Identifier: Apache-2.0
// ARM to DISARMED, renewals, flushes, maps.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include "base/clock.h"
#include "fake_shim.h"

using namespace std::chrono_literals;
using namespace pillion;
using namespace pillion::session;

namespace {

pillion_disarmed disarmed_message(const Pair& pair, std::uint32_t reason) {
  auto message = make_message<pillion_disarmed>(PILLION_DISARMED);
  message.generation = pair.session->generation();
  message.reason = reason;
  message.residue = PILLION_RESIDUE_GRAPHS;
  return message;
}

}  // namespace

TEST_CASE("ARM carries what was asked for, and rings that are ready") {
  Pair pair;
  pair.greet();
  ArmConfig config = small_config();
  config.settings.kinds = PILLION_KIND_KERNEL | PILLION_KIND_STACKS;
  config.settings.stack_bytes_max = 65'536;
  config.settings.lease_ms = 7'000;
  config.settings.finalize = GENERATE(true, false);
  REQUIRE(pair.session->arm(config).has_value());
  CHECK(pair.session->state() == SessionState::arming);
  const Got got = pair.shim.receive(PILLION_ARM);
  const auto arm = got.as<pillion_arm>();
  CHECK(arm.generation == pair.session->generation());
  CHECK(arm.generation > 0);
  CHECK(arm.lease_ms == 7'000);
  CHECK(arm.kinds == config.settings.kinds);
  CHECK((arm.detach == PILLION_DISARM_FINALIZE) == config.settings.finalize);
  CHECK(arm.stack_bytes_max == 65'536);
  REQUIRE(got.fds.size() == 3);
  const std::uint64_t sizes[] = {arm.events_bytes, arm.stacks_bytes, arm.arena_bytes};
  for (std::size_t i = 0; i < 3; ++i) {
    struct stat status {};
    REQUIRE(::fstat(got.fds[i].get(), &status) == 0);
    CHECK(static_cast<std::uint64_t>(status.st_size) == sizes[i]);
    void* mapped = ::mmap(nullptr, sizes[i], PROT_READ | PROT_WRITE, MAP_SHARED, got.fds[i].get(), 0);
    REQUIRE(mapped != MAP_FAILED);
    const auto* header = static_cast<const pillion_region_header*>(mapped);
    CHECK(header->kind == i + 1);
    CHECK(header->generation == arm.generation);
    CHECK(header->ready == PILLION_REGION_READY);
    ::munmap(mapped, sizes[i]);
  }
  CHECK_FALSE(pair.session->arm(config).has_value());  // once is enough
}

TEST_CASE("generations grow from one arm to the next, and old answers do not count") {
  Pair pair;
  pair.greet();
  pair.arm(small_config());
  const std::uint64_t first = pair.session->generation();
  pair.shim.send(disarmed_message(pair, PILLION_DISARM_LEASE));
  pair.run_until([&] { return pair.session->state() == SessionState::connected; });
  CHECK(pair.told.disarmed.at(0).reason == PILLION_DISARM_LEASE);
  CHECK(pair.session->memory() != nullptr);  // to be drained
  REQUIRE(pair.session->arm(small_config()).has_value());
  CHECK(pair.session->generation() > first);
  auto old = make_message<pillion_armed>(PILLION_ARMED);
  old.generation = first;
  pair.shim.send(old);
  pair.run_until([&] { return pair.session->counters().unexpected_messages == 1; });
  CHECK(pair.session->state() == SessionState::arming);
}

TEST_CASE("REFUSED leaves the session attached and gives the memory back") {
  Pair pair;
  pair.greet();
  REQUIRE(pair.session->arm(small_config()).has_value());
  CHECK(pair.budget->sessions() == 1);
  auto refused = make_message<pillion_refused>(PILLION_REFUSED);
  refused.generation = pair.session->generation();
  refused.reason = PILLION_REFUSAL_SUBSCRIBER_HELD;
  refused.cupti_result = 39;
  std::memcpy(refused.holder, "nsys", 5);
  pair.shim.send(refused);
  pair.run_until([&] { return !pair.told.refused.empty(); });
  CHECK(pair.told.refused[0].holder == "nsys");
  CHECK(pair.session->state() == SessionState::connected);
  CHECK(pair.session->memory() == nullptr);
  CHECK(pair.budget->sessions() == 0);
}

TEST_CASE("no room in the budget: not armed, still attached, and the reason says it") {
  Pair pair;
  pair.budget = std::make_shared<RingBudget>(1'000, 64);
  pair.session =
      std::make_unique<Session>(*pair.loop, pair.told, pair.budget, SessionOptions{}, 1, pair.shim.path());
  pair.greet();
  const auto armed = pair.session->arm(small_config());
  REQUIRE_FALSE(armed.has_value());
  CHECK(armed.error().message().find("-ring-budget") != std::string::npos);
  CHECK(pair.session->state() == SessionState::connected);
}

TEST_CASE("the lease is renewed while armed and not before or after") {
  SessionOptions options;
  options.renew_every = 5ms;
  Pair pair(options);
  pair.greet();
  pair.arm(small_config());
  for (int i = 0; i < 3; ++i) {
    pair.run_until(
        [&, before = pillion::monotonic_ns()] { return pillion::monotonic_ns() - before > 6'000'000; });
    CHECK(pair.shim.receive().as<pillion_renew>().generation == pair.session->generation());
  }
  pair.shim.send(disarmed_message(pair, PILLION_DISARM_CLOBBERED));
  pair.run_until([&] { return pair.session->state() == SessionState::connected; });
  CHECK_FALSE(pair.loop->run_once(30ms));  // no timer is left
}

TEST_CASE("a shim that does not read loses renewals, not the session") {
  SessionOptions options;
  options.renew_every = 1ms;
  Pair pair(options);
  pair.greet();
  pair.arm(small_config());
  pair.run_until([&] { return pair.session->counters().renewals_skipped >= 3; });
  CHECK(pair.session->state() == SessionState::armed);
  // It wakes up: everything that waited arrives, and renewals go on.
  const auto skipped = pair.session->counters().renewals_skipped;
  CHECK(pair.shim.receive().type == PILLION_RENEW);
  pair.session->request_maps(3);
  bool maps_asked = false;
  pair.run_until([&] {
    maps_asked = maps_asked || pair.shim.receive().type == PILLION_GET_MAPS;
    return maps_asked;
  });
  CHECK(skipped >= 3);
}

TEST_CASE("DISARM is sent at once, or after its linger") {
  Pair pair;
  pair.greet();
  pair.arm(small_config());
  SECTION("at once") {
    pair.session->disarm(true);
    const auto message = pair.shim.receive(PILLION_DISARM).as<pillion_disarm>();
    CHECK(message.flags == PILLION_DISARM_FINALIZE);
    CHECK(message.generation == pair.session->generation());
    CHECK(pair.session->state() == SessionState::draining);
    CHECK_FALSE(pair.session->keep_armed());
    pair.shim.send(disarmed_message(pair, PILLION_DISARM_ASKED));
    pair.run_until([&] { return !pair.told.disarmed.empty(); });
    CHECK(pair.told.disarmed[0].residue == PILLION_RESIDUE_GRAPHS);
    CHECK(pair.session->state() == SessionState::connected);
  }
  SECTION("after its linger") {
    pair.session->disarm(false, 20ms);
    CHECK(pair.session->state() == SessionState::armed);
    pair.run_until([&] { return pair.session->state() == SessionState::draining; });
    CHECK(pair.shim.receive(PILLION_DISARM).as<pillion_disarm>().flags == 0);
  }
  SECTION("not at all when the next request comes within it") {
    pair.session->disarm(true, 20ms);
    CHECK(pair.session->keep_armed());
    bool later = false;
    pair.loop->after(60ms, [&] { later = true; });
    pair.run_until([&] { return later; });
    CHECK(pair.session->state() == SessionState::armed);
  }
}

TEST_CASE("FLUSH is answered by its token, fails at its deadline, and with the session") {
  Pair pair;
  pair.greet();
  pair.arm(small_config());
  std::vector<Result<Flushed>> answers;
  const auto note = [&](Result<Flushed> answer) { answers.push_back(std::move(answer)); };
  SECTION("answered") {
    pair.session->flush(true, 5s, note);
    const auto request = pair.shim.receive(PILLION_FLUSH).as<pillion_flush>();
    CHECK(request.forced == 1);
    auto answer = make_message<pillion_flushed>(PILLION_FLUSHED);
    answer.token = request.token + 1;  // nobody asked for that one
    pair.shim.send(answer);
    answer.token = request.token;
    answer.begun_ns = 12'345;
    pair.shim.send(answer);
    pair.run_until([&] { return !answers.empty(); });
    REQUIRE(answers[0].has_value());
    CHECK(answers[0]->begun_ns == 12'345);
    CHECK(pair.session->counters().unexpected_messages == 1);
  }
  SECTION("too late") {
    pair.session->flush(false, 10ms, note);
    pair.run_until([&] { return !answers.empty(); });
    CHECK_FALSE(answers[0].has_value());
  }
  SECTION("the process ends") {
    pair.session->flush(false, 60s, note);
    pair.shim.close();
    pair.run_until([&] { return !answers.empty(); });
    CHECK_FALSE(answers[0].has_value());
  }
  SECTION("the shim disarms instead") {
    pair.session->flush(false, 60s, note);
    pair.shim.send(disarmed_message(pair, PILLION_DISARM_EXIT));
    pair.run_until([&] { return !answers.empty(); });
    CHECK_FALSE(answers[0].has_value());
  }
  SECTION("not armed") {
    pair.session->disarm(false);
    pair.session->flush(false, 60s, note);
    REQUIRE(answers.size() == 1);
    CHECK_FALSE(answers[0].has_value());
  }
}

TEST_CASE("maps come whole; with a hole in them they are asked for again") {
  SessionOptions options;
  options.maps_again = 5ms;
  Pair pair(options);
  pair.greet();
  pair.shim.send_text_piece(1, 0, false, "a\n");
  pair.shim.send_text_piece(1, 0, false, "a\n");
  pair.shim.send_text_piece(1, 2, true, "c\n");
  pair.run_until([&] { return pair.session->counters().maps_broken == 1; });
  CHECK(pair.session->counters().maps_repeated == 1);
  pair.run_until(
      [&, before = pillion::monotonic_ns()] { return pillion::monotonic_ns() - before > 10'000'000; });
  CHECK(pair.shim.receive(PILLION_GET_MAPS).as<pillion_get_maps>().known_generation == 0);
  pair.shim.send_text_piece(1, 0, false, "a\n");
  pair.shim.send_text_piece(1, 1, true, "b\n");
  pair.run_until([&] { return !pair.told.maps.empty(); });
  CHECK(pair.told.maps[0].generation == 1);
  CHECK(pair.told.maps[0].text == "a\nb\n");
}

TEST_CASE("maps without end are dropped at their limit") {
  Pair pair;
  pair.greet();
  const std::string text(60'000, 'm');
  for (std::uint32_t index = 0; pair.session->counters().maps_too_large == 0; ++index) {
    REQUIRE(index < 400);
    pair.shim.send_text_piece(1, index, false, text);
    (void)pair.loop->run_once(1s);
  }
  CHECK(pair.told.maps.empty());
  CHECK(pair.session->state() == SessionState::connected);
}
