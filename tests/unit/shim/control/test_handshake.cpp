// SPDX-License-Identifier: Apache-2.0
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch_test_macros.hpp>
#include <filesystem>
#include <fstream>
#include <string>

#include "host_process.h"
#include "process_state.h"
#include "test_peer.h"

using namespace pillion::shim;
using namespace pillion::shim::test;

namespace {

// Sends these bytes as the first thing, and returns the refusal that must come.
pillion_refused refusal_of(const HostProcess& host, const void* bytes, std::size_t size) {
  Peer peer(host.socket_path());
  REQUIRE(peer.connected());
  static_cast<void>(peer.expect<pillion_hello>(PILLION_HELLO));
  peer.send_bytes(bytes, size);
  const auto refused = peer.expect<pillion_refused>(PILLION_REFUSED);
  CHECK(peer.ended());
  return refused;
}

// In a child of another uid: connects, and returns what comes first there: its type, and whether `word` is in
// the text.
int connect_as(uid_t uid, gid_t gid, const std::string& path, const std::string& word) {
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    if (::setresgid(gid, gid, gid) != 0 || ::setresuid(uid, uid, uid) != 0) ::_exit(200);
    Peer peer(path);
    if (!peer.connected()) ::_exit(201);
    const Message first = peer.receive();
    if (first.type() == PILLION_REFUSED) {
      const auto* refused = reinterpret_cast<const pillion_refused*>(first.bytes.data());
      if (refused->reason != PILLION_REFUSAL_ACCESS ||
          std::string(refused->text).find(word) == std::string::npos) {
        ::_exit(202);
      }
      if (!peer.ended()) ::_exit(203);
    }
    ::_exit(static_cast<int>(first.type()));
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return WEXITSTATUS(status);
}

}  // namespace

TEST_CASE("the socket is named after the process, open to all, and alone in the directory") {
  SocketDirectory directory;
  HostProcess host(directory);
  ProcessIdentity self{};
  REQUIRE(read_identity(&self));
  const std::string start =
      "pillion-" + std::to_string(self.pid_namespace) + "-" + std::to_string(host.pid()) + "-";
  const std::string name = directory.names();
  REQUIRE(name.starts_with(start));
  REQUIRE(name.ends_with(".sock"));
  std::ifstream stat_file("/proc/" + std::to_string(host.pid()) + "/stat");
  const std::string stat_text{std::istreambuf_iterator<char>(stat_file), {}};
  CHECK(name == start + std::to_string(parse_start_time(stat_text.data(), stat_text.size())) + ".sock");
  struct stat status {};
  REQUIRE(::stat(host.socket_path().c_str(), &status) == 0);
  CHECK(S_ISSOCK(status.st_mode));
  CHECK((status.st_mode & 0777) == 0666);
  CHECK(eventually(
      [&] { return host.ask("fds") == "0"; }));  // all of the shim's descriptors are above the low numbers
}

TEST_CASE("HELLO says who it is, and QUERY says it again") {
  SocketDirectory directory;
  HostProcess host(directory);
  Peer peer(host.socket_path());
  REQUIRE(peer.connected());
  auto hello = peer.expect<pillion_hello>(PILLION_HELLO);
  for (int i = 0; i < 2; ++i) {
    CHECK(hello.pid == static_cast<std::uint32_t>(host.pid()));
    CHECK(hello.uid == ::getuid());
    CHECK(hello.pid_namespace != 0);
    CHECK(hello.flags == (PILLION_HELLO_CONTEXT | PILLION_HELLO_LATE));
    CHECK(hello.driver_version == 13000);
    CHECK(hello.cupti_version == 130001);
    CHECK(std::string(hello.comm) == "shim_host");
    CHECK(std::string(hello.exe).ends_with("/shim_host"));
    CHECK(std::string(hello.cupti_path) == "/fake/libcupti.so.13");
    CHECK(std::string(hello.shim_version) != "");
    peer.send(PILLION_QUERY, pillion_query{});
    hello = peer.expect<pillion_hello>(PILLION_HELLO);
  }
}

TEST_CASE("what is not our protocol is told so and hung up on; the next one is served") {
  SocketDirectory directory;
  HostProcess host(directory);
  const char http[] = "GET /profile HTTP/1.1\r\nHost: localhost\r\n\r\n";
  CHECK(refusal_of(host, http, sizeof http).reason == PILLION_REFUSAL_BAD_MESSAGE);
  CHECK(refusal_of(host, "x", 1).reason == PILLION_REFUSAL_BAD_MESSAGE);
  pillion_renew renew{{PILLION_ABI_MAGIC, PILLION_ABI_MAJOR, 0, PILLION_RENEW, sizeof renew}, 1};
  renew.header.size = 4096;
  CHECK(std::string(refusal_of(host, &renew, sizeof renew).text) ==
        "size says 4096, the packet has 24 bytes");
  renew.header.size = sizeof renew;
  renew.header.magic = 0x12345678;
  CHECK(std::string(refusal_of(host, &renew, sizeof renew).text).starts_with("magic is 305419896"));
  renew.header.magic = PILLION_ABI_MAGIC;
  renew.header.major = 7;
  const auto version = refusal_of(host, &renew, sizeof renew);
  CHECK(version.reason == PILLION_REFUSAL_VERSION);
  CHECK(std::string(version.text) ==
        "the sidecar speaks version 7.0 of the wire, the shim 1." + std::to_string(PILLION_ABI_MINOR));
  std::vector<std::uint8_t> huge(200'000, 7);  // larger than any packet: cut by the receiver
  CHECK(refusal_of(host, huge.data(), huge.size()).reason == PILLION_REFUSAL_BAD_MESSAGE);
  Peer peer(host.socket_path());
  static_cast<void>(peer.expect<pillion_hello>(PILLION_HELLO));
}

TEST_CASE("a message that is too short is refused and the connection stays; unknown types are skipped") {
  SocketDirectory directory;
  HostProcess host(directory);
  Peer peer(host.socket_path());
  static_cast<void>(peer.expect<pillion_hello>(PILLION_HELLO));
  pillion_message_header arm{PILLION_ABI_MAGIC, PILLION_ABI_MAJOR, 0, PILLION_ARM, sizeof arm};
  peer.send_bytes(&arm, sizeof arm);
  CHECK(std::string(peer.expect<pillion_refused>(PILLION_REFUSED).text) == "ARM: size is 16, needs 72");
  const pillion_message_header news{PILLION_ABI_MAGIC, PILLION_ABI_MAJOR, 3, 999, sizeof news};
  peer.send_bytes(&news, sizeof news);
  struct {
    pillion_query query;
    std::uint8_t appended[48];
  } longer{{{PILLION_ABI_MAGIC, PILLION_ABI_MAJOR, 3, PILLION_QUERY, sizeof longer}}, {}};
  peer.send_bytes(&longer, sizeof longer);
  static_cast<void>(peer.expect<pillion_hello>(PILLION_HELLO));
}

TEST_CASE("a second sidecar is told who holds the first place, and gets it when that one leaves") {
  SocketDirectory directory;
  HostProcess host(directory);
  auto first = std::make_unique<Peer>(host.socket_path());
  static_cast<void>(first->expect<pillion_hello>(PILLION_HELLO));
  for (int i = 0; i < 3; ++i) {
    Peer second(host.socket_path());
    CHECK(second.expect<pillion_busy>(PILLION_BUSY).holder_pid == static_cast<std::uint32_t>(::getpid()));
    CHECK(second.ended());
  }
  first->send(PILLION_QUERY, pillion_query{});
  static_cast<void>(first->expect<pillion_hello>(PILLION_HELLO));
  first.reset();
  CHECK(eventually([&] {
    Peer next(host.socket_path());
    return next.receive().type() == PILLION_HELLO;
  }));
}

TEST_CASE("a peer of another uid is refused by name unless it is allowed") {
  if (::getuid() != 0) SKIP("needs root, to become another uid");
  SocketDirectory directory;
  HostProcess host(directory);
  CHECK(connect_as(1234, 1234, host.socket_path(), "uid 1234") == PILLION_REFUSED);
  SocketDirectory other;
  HostProcess open_host(other, {{"PILLION_ALLOW_UID", "77,1234"}, {"PILLION_ALLOW_GID", "2000"}});
  CHECK(connect_as(1234, 1234, open_host.socket_path(), "") == PILLION_HELLO);
  CHECK(eventually([&] { return connect_as(4321, 2000, open_host.socket_path(), "") == PILLION_HELLO; }));
  CHECK(eventually(
      [&] { return connect_as(4321, 4321, open_host.socket_path(), "uid 4321") == PILLION_REFUSED; }));
}

TEST_CASE("without a socket directory the shim is inert and silent") {
  SocketDirectory directory;
  HostProcess host(directory, {{"PILLION_SOCKET_DIR", "/nonexistent"}});
  CHECK(host.socket_path().empty());
  CHECK(host.ask("masks").find("pillion") == std::string::npos);
  CHECK(host.ask("highfds") == "0");
  host.tell("exit");
  CHECK(host.wait(5000) == 5);
  CHECK(host.errors() == "");
}

TEST_CASE("a socket directory with too long a path, or none to write in, leaves the shim inert") {
  SocketDirectory directory;
  const std::string deep = directory.path() + "/" + std::string(90, 'd');
  std::filesystem::create_directory(deep);
  HostProcess host(directory, {{"PILLION_SOCKET_DIR", deep}});
  CHECK(host.ask("masks").find("pillion") == std::string::npos);
  HostProcess proc(directory, {{"PILLION_SOCKET_DIR", "/proc"}});
  CHECK(proc.ask("masks").find("pillion") == std::string::npos);
}

TEST_CASE("only PILLION_LOG gets words, one line each") {
  SocketDirectory directory;
  const std::string log = directory.path() + "/log";
  {
    HostProcess host(directory, {{"PILLION_LOG", log}});
    Peer peer(host.socket_path());
    static_cast<void>(peer.expect<pillion_hello>(PILLION_HELLO));
    peer.send_bytes("x", 1);
    static_cast<void>(peer.expect<pillion_refused>(PILLION_REFUSED));
    CHECK(peer.ended());
    host.tell("exit");
    CHECK(host.wait(5000) == 5);
    CHECK(host.errors() == "");
  }
  std::ifstream file(log);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  CHECK(text.find("connected with pid " + std::to_string(::getpid()) + "\n") != std::string::npos);
  CHECK(text.find("shorter than a header") != std::string::npos);
}
