// SPDX-License-Identifier: Apache-2.0
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch_test_macros.hpp>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <sstream>
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

struct Armed {
  SocketDirectory directory;
  HostProcess host;
  Peer peer;
  SessionOffer offer{1};
  explicit Armed(const Environment& environment, bool wait = true)
      : host(directory, environment), peer(host.socket_path()) {
    static_cast<void>(peer.expect<pillion_hello>(PILLION_HELLO));
    peer.send(PILLION_ARM, offer.arm, offer.fds());
    if (wait) static_cast<void>(peer.expect<pillion_armed>(PILLION_ARMED));
  }
  std::uint64_t drain() {
    std::uint64_t read = 0;
    for (std::uint32_t r = 0; r < 4; ++r) read += offer.events.drain(r).size();
    return read;
  }
  // Reads up to the end of the connection; whether DISARMED with this reason was among it.
  bool told(std::uint32_t reason) {
    bool seen = false;
    for (;;) {
      const Message message = peer.receive();
      if (message.type() == 0) return seen;
      if (message.type() == PILLION_DISARMED) {
        seen = reinterpret_cast<const pillion_disarmed*>(message.bytes.data())->reason == reason;
      }
    }
  }
};

}  // namespace

TEST_CASE("asleep, exit is as if the shim were not there, and the socket's name is gone") {
  SocketDirectory directory;
  HostProcess host(directory);
  CHECK(host.ask("again") == "1");
  host.tell("exit");
  CHECK(host.wait(5000) == 5);
  CHECK(host.errors() == "");
  CHECK(directory.names() == "");
}

TEST_CASE("armed, exit flushes, tells the sidecar, keeps its status, while threads go on launching") {
  for (int round = 0; round < 5; ++round) {
    Armed at(Environment{{"FAKE_PRODUCERS", "4"}});
    const auto start = Clock::now();
    at.host.tell("exit");
    CHECK(at.host.wait(5000) == 5);
    CHECK(ms_since(start) < 2000);
    CHECK(at.host.errors() == "");
    CHECK(at.told(PILLION_DISARM_EXIT));
    CHECK(at.directory.names() == "");
    std::uint64_t read = at.drain();
    const std::uint64_t dropped = at.offer.events.counter(&pillion_counters::launches_dropped_full) +
                                  at.offer.events.counter(&pillion_counters::launches_dropped_busy);
    CHECK(read + dropped == at.offer.events.counter(&pillion_counters::launches));
  }
}

TEST_CASE("exit does not wait for a capture that hangs: in disarm, in flush, in arming") {
  for (const char* where : {"FAKE_DISARM_MS", "FAKE_FLUSH_MS", "FAKE_ARM_MS"}) {
    Armed at(Environment{{where, "8000"}}, std::string(where) != "FAKE_ARM_MS");
    // ARM has been taken up: an exit before that has nothing to wait for.
    REQUIRE(eventually([&] { return at.host.ask("masks").find("pillion-capture") != std::string::npos; }));
    const auto start = Clock::now();
    at.host.tell("exit");
    CHECK(at.host.wait(5000) == 5);
    CHECK(ms_since(start) >= 150);
    CHECK(ms_since(start) < 2000);
    CHECK(at.directory.names() == "");
    static_cast<void>(at.told(PILLION_DISARM_EXIT));  // the connection has ended
  }
}

TEST_CASE("a killed process leaves whole records, its counters, and the end of the connection") {
  Armed at(Environment{{"FAKE_PRODUCERS", "4"}});
  std::uint64_t read = 0;
  while (read < 5000) read += at.drain();
  at.host.kill();
  CHECK(at.host.wait(5000) == 128 + SIGKILL);
  static_cast<void>(at.told(0));
  read += at.drain();  // throws on a broken record
  CHECK(read >= 5000);
}

TEST_CASE("a forked child is inert and holds nothing; its parent goes on") {
  Armed at(Environment{});
  for (int i = 0; i < 5; ++i) CHECK(at.host.ask("fork") == "launch=closed sockets=0");
  CHECK(at.host.ask("launch") == "launch=ok sockets=2");
  at.peer.send(PILLION_QUERY, pillion_query{});
  static_cast<void>(at.peer.expect<pillion_hello>(PILLION_HELLO));
  // The children live on for a second; the parent's death ends the connection before that.
  const auto start = Clock::now();
  at.host.kill();
  static_cast<void>(at.told(0));
  CHECK(ms_since(start) < 900);
}

TEST_CASE("a child made by a raw clone, which runs no handler, is closed too") {
  Armed at(Environment{});
  CHECK(at.host.ask("rawfork").starts_with("launch=closed"));
  CHECK(at.host.ask("launch").starts_with("launch=ok"));
  CHECK(at.drain() == 1);
}

TEST_CASE("the shim's threads block all signals but libc's own two, and setuid works") {
  Armed at(Environment{});
  std::istringstream masks(at.host.ask("masks"));
  int ours = 0;
  for (std::string one; masks >> one;) {
    const std::string name = one.substr(0, one.find('='));
    const std::uint64_t mask = std::stoull(one.substr(one.find('=') + 1), nullptr, 16);
    if (name.starts_with("pillion-")) {
      // All 64 but KILL (9), STOP (19), and 32 and 33.
      constexpr auto kBit = [](int signal) { return std::uint64_t{1} << (signal - 1); };
      CHECK(mask == ~(kBit(9) | kBit(19) | kBit(32) | kBit(33)));
      ++ours;
    } else if (name == "main") {
      CHECK(mask == 0);
    }
  }
  CHECK(ours == 2);
  CHECK(at.host.ask("setuid") == "set");
}

TEST_CASE("under RLIMIT_FSIZE 0 the program is unharmed, logging or not") {
  SocketDirectory directory;
  HostProcess host(directory, {{"PILLION_LOG", directory.path() + "/log"}, {"FAKE_PRODUCERS", "2"}});
  CHECK(host.ask("nofilesize") == "set");
  Peer peer(host.socket_path());
  static_cast<void>(peer.expect<pillion_hello>(PILLION_HELLO));
  SessionOffer offer(1);
  peer.send(PILLION_ARM, offer.arm, offer.fds());
  static_cast<void>(peer.expect<pillion_armed>(PILLION_ARMED));
  peer.send(PILLION_DISARM, pillion_disarm{{}, 1, 0, 0});
  static_cast<void>(peer.expect<pillion_disarmed>(PILLION_DISARMED));
  host.tell("exit");
  CHECK(host.wait(5000) == 5);
}

TEST_CASE("a program that closes every descriptor keeps those it opens afterwards, and is served again") {
#ifdef __SANITIZE_THREAD__
  SKIP("ThreadSanitizer does not see close_range() and takes the reuse of a number for a race");
#endif
  for (const bool armed : {false, true}) {
    SocketDirectory directory;
    CAPTURE(armed);
    HostProcess host(directory, {{"FAKE_PRODUCERS", "2"}});
    std::unique_ptr<Peer> peer;
    SessionOffer offer(1);
    if (armed) {
      peer = std::make_unique<Peer>(host.socket_path());
      static_cast<void>(peer->expect<pillion_hello>(PILLION_HELLO));
      peer->send(PILLION_ARM, offer.arm, offer.fds());
      static_cast<void>(peer->expect<pillion_armed>(PILLION_ARMED));
    }
    // 300 of its own; the shim may have made two new ones meanwhile.
    CHECK(host.ask("closeall").starts_with("last=30"));
    // Asleep in poll() it notices when somebody comes: whoever that is is turned away, and the next one is
    // not.
    CHECK(eventually([&] {
      Peer poke(host.socket_path());
      return poke.connected() && poke.receive().type() == PILLION_HELLO;
    }));
    // With socket and directory. Where the shim had one open for a moment meanwhile there is a gap, and the
    // last of the program's lies higher.
    const auto all = [&] { return std::stoi(host.ask("fds")) + std::stoi(host.ask("highfds")); };
    (void)eventually([&] { return all() == 302; });
    CHECK(all() == 302);
    host.tell("exit");
    CHECK(host.wait(5000) == 5);
    CHECK(host.errors() == "");
  }
}

TEST_CASE("with no descriptor left, arming is refused and the program goes on") {
  SocketDirectory directory;
  HostProcess host(directory);
  Peer peer(host.socket_path());
  static_cast<void>(peer.expect<pillion_hello>(PILLION_HELLO));
  CHECK(host.ask("nofds") == "set");
  SessionOffer offer(1);
  peer.send(PILLION_ARM, offer.arm, offer.fds());
  const auto refused = peer.expect<pillion_refused>(PILLION_REFUSED);
  CHECK(refused.reason == PILLION_REFUSAL_MEMORY);
  CHECK(std::string(refused.text) == "events: no file descriptor");
  Peer second(host.socket_path());
  CHECK_FALSE(second.readable(100));  // waits in the backlog
  peer.send(PILLION_QUERY, pillion_query{});
  static_cast<void>(peer.expect<pillion_hello>(PILLION_HELLO));
}
