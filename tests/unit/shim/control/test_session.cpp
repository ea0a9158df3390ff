// SPDX-License-Identifier: Apache-2.0
#include <sys/stat.h>
#include <unistd.h>

#include <signal.h>
#include <algorithm>

#include <catch2/catch_test_macros.hpp>
#include <chrono>
#include <fstream>
#include <stdexcept>
#include <string>

#include "host_process.h"
#include "test_peer.h"

using namespace pillion::shim;
using namespace pillion::shim::test;

namespace {

using Clock = std::chrono::steady_clock;

int ms_since(Clock::time_point start) {
  return static_cast<int>(
      std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - start).count());
}

std::string slurp(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

pillion_armed arm(Peer& peer, SessionOffer& offer) {
  peer.send(PILLION_ARM, offer.arm, offer.fds());
  return peer.expect<pillion_armed>(PILLION_ARMED);
}

pillion_disarmed disarm(Peer& peer, std::uint64_t generation, std::uint32_t flags = 0) {
  peer.send(PILLION_DISARM, pillion_disarm{{}, generation, flags, 0});
  return peer.expect<pillion_disarmed>(PILLION_DISARMED);
}

struct Attached {
  SocketDirectory directory;
  HostProcess host;
  Peer peer;
  explicit Attached(const Environment& environment = {})
      : host(directory, environment), peer(host.socket_path()) {
    static_cast<void>(peer.expect<pillion_hello>(PILLION_HELLO));
  }
};

pillion_refused refused_arm(Peer& peer, const pillion_arm& wanted, const std::vector<int>& fds) {
  peer.send(PILLION_ARM, wanted, fds);
  return peer.expect<pillion_refused>(PILLION_REFUSED);
}

}  // namespace

TEST_CASE("what is known of Python follows each ARMED") {
  Attached at;
  for (std::uint64_t generation = 1; generation <= 2; ++generation) {
    SessionOffer offer(generation);
    static_cast<void>(arm(at.peer, offer));
    const auto python = at.peer.expect<pillion_python>(PILLION_PYTHON);
    CHECK(python.generation == generation);
    CHECK(python.state == PILLION_PYTHON_IN_FORCE);
    CHECK(python.version == 0x030b02f0);
    static_cast<void>(disarm(at.peer, generation));
  }
}

TEST_CASE("armed: records come, flush answers, counters agree, disarm ends it; and again") {
  Attached at(Environment{{"FAKE_PRODUCERS", "4"}});
  for (std::uint64_t generation = 1; generation <= 3; ++generation) {
    SessionOffer offer(generation);
    const auto armed = arm(at.peer, offer);
    CHECK(armed.generation == generation);
    CHECK(armed.kinds == PILLION_KIND_ALL);
    CHECK(armed.armed_ns > 0);
    std::uint64_t read = 0;
    const auto drain = [&] {
      for (std::uint32_t r = 0; r < 4; ++r) read += offer.events.drain(r).size();
    };
    while (read < 20'000) drain();
    at.peer.send(PILLION_FLUSH, pillion_flush{{}, 77 + generation, 1, 0});
    const auto flushed = at.peer.expect<pillion_flushed>(PILLION_FLUSHED);
    CHECK(flushed.token == 77 + generation);
    CHECK(flushed.begun_ns > armed.armed_ns);
    CHECK(flushed.cupti_result == 0);
    CHECK(offer.events.counter(&pillion_counters::launches) > 0);
    const auto disarmed = disarm(at.peer, generation, PILLION_DISARM_FINALIZE);
    CHECK(disarmed.generation == generation);
    CHECK(disarmed.reason == PILLION_DISARM_ASKED);
    CHECK(disarmed.residue == PILLION_RESIDUE_FINALIZED);
    drain();
    const std::uint64_t launches = offer.events.counter(&pillion_counters::launches);
    const std::uint64_t dropped = offer.events.counter(&pillion_counters::launches_dropped_full) +
                                  offer.events.counter(&pillion_counters::launches_dropped_busy);
    CHECK(read + dropped == launches);
    CHECK(at.host.ask("launch").starts_with("launch=closed"));
    CHECK(slurp("/proc/" + std::to_string(at.host.pid()) + "/maps").find("memfd:pillion-test") ==
          std::string::npos);
  }
  CHECK(eventually([&] { return at.host.ask("fds") == "0"; }));  // a look at the maps has one for a moment
}

TEST_CASE("ARM with memory that is not as it must be is refused, and a good one is taken right after") {
  Attached at;
  SessionOffer good(1);
  const auto reason = [&](const pillion_arm& wanted, const std::vector<int>& fds) {
    const auto refused = refused_arm(at.peer, wanted, fds);
    CHECK(refused.reason == PILLION_REFUSAL_MEMORY);
    CHECK(refused.generation == wanted.generation);
    return std::string(refused.text);
  };
  CHECK(reason(good.arm, {}) == "events: no file descriptor");
  CHECK(reason(good.arm, {good.events.fd(), good.stacks.fd()}) == "arena: no file descriptor");
  CHECK(reason(good.arm, {good.stacks.fd(), good.stacks.fd(), good.arena.fd()})
            .starts_with("events: header kind"));
  SessionOffer unsealed(1, {.seals = 0});
  CHECK(reason(unsealed.arm, unsealed.fds()) == "events: seals are not SHRINK|GROW|SEAL");
  SessionOffer half_built(1, {.ready = false});
  CHECK(reason(half_built.arm, half_built.fds()) == "events: header is not READY");
  SessionOffer empty(1, {.populate = false});
  CHECK(reason(empty.arm, empty.fds()) == "events: not populated");
  pillion_arm wrong = good.arm;
  wrong.stacks_bytes -= 4096;
  CHECK(reason(wrong, good.fds()) == "stacks: size differs from the stated one");
  wrong = good.arm;
  wrong.generation = 2;
  CHECK(reason(wrong, good.fds()) == "events: header generation");
  CHECK(arm(at.peer, good).generation == 1);
  CHECK(eventually([&] { return at.host.ask("fds") == "0"; }));  // a look at the maps has one for a moment
}

TEST_CASE("ARM's own fields are checked") {
  Attached at;
  SessionOffer offer(1);
  const auto text = [&](auto change) {
    pillion_arm wanted = offer.arm;
    change(wanted);
    const auto refused = refused_arm(at.peer, wanted, offer.fds());
    CHECK(refused.reason == PILLION_REFUSAL_BAD_MESSAGE);
    return std::string(refused.text);
  };
  CHECK(text([](auto& a) { a.generation = 0; }) == "ARM: generation is 0");
  CHECK(text([](auto& a) { a.lease_ms = 0; }) == "ARM: lease_ms is not in 50..600000");
  CHECK(text([](auto& a) { a.sample_permyriad = 10'001; }) == "ARM: sample_permyriad is above 10000");
  static_cast<void>(arm(at.peer, offer));
  CHECK(text([](auto& a) { a.generation = 2; }) == "ARM: an earlier session has not ended");
}

TEST_CASE("what CUPTI refuses is passed on with its holder, and the shim is asleep again") {
  Attached at(Environment{{"FAKE_REFUSE", "1"}});
  SessionOffer offer(4);
  for (int i = 0; i < 2; ++i) {
    const auto refused = refused_arm(at.peer, offer.arm, offer.fds());
    CHECK(refused.reason == PILLION_REFUSAL_SUBSCRIBER_HELD);
    CHECK(refused.cupti_result == 39);
    CHECK(refused.generation == 4);
    CHECK(std::string(refused.holder) == "X");
  }
  at.peer.send(PILLION_QUERY, pillion_query{});
  CHECK((at.peer.expect<pillion_hello>(PILLION_HELLO).flags & PILLION_HELLO_ARMED) == 0);
}

TEST_CASE("a silent sidecar loses its lease and learns so; one that renews keeps it") {
  Attached at(Environment{{"FAKE_PRODUCERS", "2"}});
  SessionOffer offer(1);
  offer.arm.lease_ms = 400;
  static_cast<void>(arm(at.peer, offer));
  const auto start = Clock::now();
  for (int i = 0; i < 8; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    at.peer.send(PILLION_RENEW, pillion_renew{{}, 1});
  }
  CHECK(ms_since(start) >= 800);
  at.peer.send(PILLION_QUERY, pillion_query{});
  CHECK((at.peer.expect<pillion_hello>(PILLION_HELLO).flags & PILLION_HELLO_ARMED) != 0);
  const auto silent = Clock::now();
  const auto disarmed = at.peer.expect<pillion_disarmed>(PILLION_DISARMED);
  CHECK(disarmed.reason == PILLION_DISARM_LEASE);
  CHECK(ms_since(silent) >= 350);
  CHECK(ms_since(silent) < 3000);
  SessionOffer next(2);
  CHECK(arm(at.peer, next).generation == 2);
}

TEST_CASE("a sidecar that reads nothing cannot stall the shim: its lease ends all the same") {
  SocketDirectory directory;
  const std::string report = directory.path() + "/report";
  HostProcess host(directory, {{"FAKE_REPORT", report}});
  Peer frozen(host.socket_path());
  SessionOffer offer(1);
  offer.arm.lease_ms = 500;
  frozen.send(PILLION_ARM, offer.arm, offer.fds());
  try {
    for (int i = 0; i < 400; ++i) frozen.send(PILLION_QUERY, pillion_query{});  // answers that nobody reads
  } catch (const std::runtime_error&) {
    // On a slow machine the lease is over, and the connection closed, before the last of them.
  }
  CHECK(eventually([&] { return slurp(report).find('D') != std::string::npos; }));
  Peer next(host.socket_path());
  const std::uint32_t first = next.receive().type();
  CHECK((first == PILLION_HELLO || first == PILLION_BUSY));
}

TEST_CASE("the end of the connection disarms") {
  SocketDirectory directory;
  const std::string report = directory.path() + "/report";
  HostProcess host(directory, {{"FAKE_PRODUCERS", "2"}, {"FAKE_REPORT", report}});
  for (std::uint64_t generation = 1; generation <= 3; ++generation) {
    auto peer = std::make_unique<Peer>(host.socket_path());
    static_cast<void>(peer->expect<pillion_hello>(PILLION_HELLO));
    SessionOffer offer(generation);
    static_cast<void>(arm(*peer, offer));
    const auto start = Clock::now();
    peer.reset();
    CHECK(eventually([&] {
      const std::string events = slurp(report);
      return std::count(events.begin(), events.end(), 'D') == static_cast<std::ptrdiff_t>(generation);
    }));
    CHECK(ms_since(start) < 1000);
    CHECK(eventually([&] { return host.ask("masks").find("pillion-capture") == std::string::npos; }));
  }
}

TEST_CASE("a disarm that nobody asks for finalizes as ARM said; a sidecar of 1.0 means yes") {
  SocketDirectory directory;
  const std::string report = directory.path() + "/report";
  HostProcess host(directory, {{"FAKE_REPORT", report}});
  SessionOffer offer(1);
  char expected = 'D';
  std::uint32_t bytes = sizeof offer.arm;
  SECTION("yes") {}
  SECTION("no") {
    offer.arm.detach = 0;
    expected = 'd';
  }
  SECTION("1.0") {
    offer.arm.detach = 0;
    bytes = PILLION_ARM_BYTES_1_0;
  }
  auto peer = std::make_unique<Peer>(host.socket_path());
  static_cast<void>(peer->expect<pillion_hello>(PILLION_HELLO));
  offer.arm.header = {PILLION_ABI_MAGIC, PILLION_ABI_MAJOR, 0, PILLION_ARM, bytes};
  peer->send_bytes(&offer.arm, bytes, offer.fds());
  const auto armed = peer->expect<pillion_armed>(PILLION_ARMED);
  CHECK((armed.detach == PILLION_DISARM_FINALIZE) == (expected == 'D'));
  CHECK(armed.lease_ms == offer.arm.lease_ms);
  CHECK(armed.events_rings == offer.events.header().ring_count);
  CHECK(armed.events_ring_bytes == offer.events.header().ring_bytes);
  CHECK(armed.stacks_rings == offer.stacks.header().ring_count);
  CHECK(armed.stacks_ring_bytes == offer.stacks.header().ring_bytes);
  peer.reset();
  CHECK(eventually([&] { return slurp(report).find(expected) != std::string::npos; }));
}

TEST_CASE("an arming that hangs is refused at its deadline, undone when it returns, and works afterwards") {
  SocketDirectory directory;
  const std::string report = directory.path() + "/report";
  HostProcess host(directory, {{"FAKE_ARM_MS", "1500"}, {"FAKE_REPORT", report}});
  Peer peer(host.socket_path());
  static_cast<void>(peer.expect<pillion_hello>(PILLION_HELLO));
  SessionOffer offer(1);
  offer.arm.deadline_ms = 200;
  const auto start = Clock::now();
  CHECK(refused_arm(peer, offer.arm, offer.fds()).reason == PILLION_REFUSAL_DEADLINE);
  CHECK(ms_since(start) >= 200);
  CHECK(ms_since(start) < 1400);
  peer.send(PILLION_QUERY, pillion_query{});  // answered while it hangs
  static_cast<void>(peer.expect<pillion_hello>(PILLION_HELLO));
  SessionOffer second(2);
  second.arm.deadline_ms = 10'000;
  CHECK(refused_arm(peer, second.arm, second.fds()).reason == PILLION_REFUSAL_DEADLINE);
  CHECK(eventually([&] { return slurp(report) == "aD"; }));
  CHECK(eventually([&] {
    peer.send(PILLION_QUERY, pillion_query{});
    return (peer.expect<pillion_hello>(PILLION_HELLO).flags & PILLION_HELLO_ARMED) == 0;
  }));
  CHECK(arm(peer, second).generation == 2);
}

TEST_CASE("the time in which the process stood still does not count against an arming") {
  SocketDirectory directory;
  const std::string report = directory.path() + "/report";
  HostProcess host(directory, {{"FAKE_ARM_MS", "2500"}, {"FAKE_REPORT", report}});
  Peer peer(host.socket_path());
  static_cast<void>(peer.expect<pillion_hello>(PILLION_HELLO));
  SessionOffer offer(1);
  offer.arm.deadline_ms = 1'500;
  peer.send(PILLION_ARM, offer.arm, offer.fds());
  REQUIRE(eventually([&] { return slurp(report) == "a"; }));
  REQUIRE(::kill(host.pid(), SIGSTOP) == 0);
  std::this_thread::sleep_for(std::chrono::milliseconds(2'000));  // what is tested is this long a time
  REQUIRE(::kill(host.pid(), SIGCONT) == 0);
  CHECK(peer.expect<pillion_armed>(PILLION_ARMED).generation == 1);
}

TEST_CASE("flushes are answered one by one with their tokens; asleep and overdone ones with an error") {
  Attached at(Environment{{"FAKE_FLUSH_MS", "20"}});
  at.peer.send(PILLION_FLUSH, pillion_flush{{}, 5, 0, 0});
  CHECK(at.peer.expect<pillion_flushed>(PILLION_FLUSHED).cupti_result == 15);
  SessionOffer offer(1);
  static_cast<void>(arm(at.peer, offer));
  for (std::uint64_t token = 100; token < 140; ++token) {
    at.peer.send(PILLION_FLUSH, pillion_flush{{}, token, token % 2 == 0 ? 1u : 0u, 0});
  }
  std::uint64_t done = 0;
  std::uint64_t refused = 0;
  std::uint64_t last_done = 0;
  for (int i = 0; i < 40; ++i) {
    const auto flushed = at.peer.expect<pillion_flushed>(PILLION_FLUSHED);
    if (flushed.cupti_result == 15) {
      ++refused;
      continue;
    }
    CHECK(flushed.token > last_done);
    last_done = flushed.token;
    CHECK(flushed.cupti_result == (flushed.token % 2 == 0 ? 0u : 7u));
    ++done;
  }
  CHECK(done >= 16);
  CHECK(done + refused == 40);
}

TEST_CASE("a capture that loses CUPTI ends the session and says why") {
  Attached at(Environment{{"FAKE_LOST_TICK", "3"}});
  SessionOffer offer(1);
  static_cast<void>(arm(at.peer, offer));
  const auto disarmed = at.peer.expect<pillion_disarmed>(PILLION_DISARMED);
  CHECK(disarmed.reason == PILLION_DISARM_CLOBBERED);
  CHECK(std::string(disarmed.text) == "the fake lost it");
}

TEST_CASE("maps come at arming, on a dlopen, and when asked for; unchanged ones come empty") {
  Attached at;
  std::uint32_t asleep_generation = 0;
  at.peer.send(PILLION_GET_MAPS, pillion_get_maps{{}, 0, 0});
  const std::string asleep = at.peer.expect_maps(&asleep_generation);
  CHECK(asleep.find("shim_host") != std::string::npos);
  CHECK(asleep.find("[stack]") != std::string::npos);
  at.peer.send(PILLION_GET_MAPS, pillion_get_maps{{}, asleep_generation, 0});
  std::uint32_t same = 0;
  CHECK(at.peer.expect_maps(&same) == "");
  CHECK(same == asleep_generation);

  SessionOffer offer(1);
  static_cast<void>(arm(at.peer, offer));
  std::uint32_t armed_generation = 0;
  CHECK(at.peer.expect_maps(&armed_generation).find("shim_host") != std::string::npos);
  CHECK(at.host.ask("dlopen libBrokenLocale.so.1") == "loaded");
  std::uint32_t loaded_generation = 0;
  CHECK(at.peer.expect_maps(&loaded_generation).find("libBrokenLocale") != std::string::npos);
  CHECK(loaded_generation > armed_generation);
}

TEST_CASE("the file of a mapping comes as a descriptor; a wrong start as an error") {
  Attached at;
  at.peer.send(PILLION_GET_MAPS, pillion_get_maps{{}, 0, 0});
  const std::string maps = at.peer.expect_maps();
  const std::size_t libc = maps.find("libc.so.6");
  REQUIRE(libc != std::string::npos);
  const std::size_t line = maps.rfind('\n', libc) + 1;
  const std::string path = maps.substr(maps.find('/', line), maps.find('\n', line) - maps.find('/', line));
  int fd = -1;
  at.peer.send(PILLION_GET_FILE, pillion_get_file{{}, 9, std::stoull(maps.substr(line), nullptr, 16)});
  const auto file = at.peer.expect<pillion_file>(PILLION_FILE, 10'000, &fd);
  CHECK(file.request == 9);
  CHECK(file.error == 0);
  REQUIRE(fd >= 0);
  struct stat a {};
  struct stat b {};
  REQUIRE(::fstat(fd, &a) == 0);
  REQUIRE(::stat(path.c_str(), &b) == 0);
  CHECK(a.st_ino == b.st_ino);
  CHECK(a.st_dev == b.st_dev);
  ::close(fd);
  at.peer.send(PILLION_GET_FILE, pillion_get_file{{}, 10, 4096});
  const auto none = at.peer.expect<pillion_file>(PILLION_FILE, 10'000, &fd);
  CHECK(none.request == 10);
  CHECK(none.error == ENOENT);
  CHECK(fd == -1);
  CHECK(eventually([&] { return at.host.ask("fds") == "0"; }));  // a look at the maps has one for a moment
}
