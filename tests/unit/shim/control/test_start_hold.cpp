// SPDX-License-Identifier: Apache-2.0
// A program whose cuInit (here: InitializeInjection) waits for a recorder, and everything that lets it go on.
#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <catch2/catch_test_macros.hpp>
#include <chrono>
#include <fstream>
#include <future>
#include <iterator>
#include <memory>
#include <sstream>
#include <string>

#include "host_process.h"
#include "test_peer.h"

using namespace pillion::shim;
using namespace pillion::shim::test;

namespace {

using namespace std::chrono_literals;

// The file of PILLION_RECORDER, locked as `pillion record` locks it.
class Recorder {
 public:
  explicit Recorder(const SocketDirectory& directory) : path_(directory.path() + "/recorder-1") {
    fd_ = ::open(path_.c_str(), O_RDONLY | O_CREAT | O_CLOEXEC, 0444);
    REQUIRE(::flock(fd_, LOCK_EX | LOCK_NB) == 0);
  }
  ~Recorder() { release(); }
  void release() {
    if (fd_ >= 0) ::close(fd_);
    fd_ = -1;
  }
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  std::string path_;
  int fd_ = -1;
};

// A host whose start waits: its constructor returns once the program goes on.
struct HeldHost {
  explicit HeldHost(pillion::shim::test::Environment more = {}) : recorder(directory) {
    more.emplace("PILLION_RECORDER", recorder.path());
    host = std::async(std::launch::async,
                      [this, more] { return std::make_unique<HostProcess>(directory, more); });
  }
  [[nodiscard]] bool goes_on(std::chrono::milliseconds within = 15s) const {
    return host.wait_for(within) == std::future_status::ready;
  }
  // Of the shim that waits; not the name under which it is made.
  [[nodiscard]] std::string socket() const {
    std::string name;
    REQUIRE(eventually([&] {
      std::istringstream all(directory.names());
      while (all >> name) {
        if (name.starts_with("pillion-") && name.ends_with(".sock")) return true;
      }
      return false;
    }));
    return directory.path() + "/" + name;
  }

  SocketDirectory directory;
  Recorder recorder;
  std::future<std::unique_ptr<HostProcess>> host;
};

pillion_hello hello_of(Peer& peer) { return peer.expect<pillion_hello>(PILLION_HELLO); }

}  // namespace

TEST_CASE("the program goes on with START, armed") {
  HeldHost at;
  Peer peer(at.socket());
  const auto hello = hello_of(peer);
  CHECK((hello.flags & PILLION_HELLO_HELD) != 0);
  CHECK((hello.flags & PILLION_HELLO_CONTEXT) == 0);
  SessionOffer offer(1);
  peer.send(PILLION_ARM, offer.arm, offer.fds());
  static_cast<void>(peer.expect<pillion_armed>(PILLION_ARMED));
  CHECK_FALSE(at.goes_on(0ms));  // armed is not enough: the window must be open
  peer.send(PILLION_START, pillion_start{});
  REQUIRE(at.goes_on());
  peer.send(PILLION_QUERY, pillion_query{});
  const auto after = hello_of(peer);
  CHECK((after.flags & PILLION_HELLO_HELD) == 0);
  CHECK((after.flags & PILLION_HELLO_ARMED) != 0);
  CHECK(at.host.get()->ask("launch 7") != "");
}

TEST_CASE("the program goes on when the connection ends") {
  HeldHost at;
  Peer peer(at.socket());
  static_cast<void>(hello_of(peer));
  peer.close();
  CHECK(at.goes_on());
}

TEST_CASE("the program goes on when the recorder lets go of its file, or has died") {
  HeldHost at;
  REQUIRE_FALSE(at.socket().empty());
  CHECK_FALSE(at.goes_on(0ms));
  at.recorder.release();
  CHECK(at.goes_on());
}

TEST_CASE("nobody is waited for whose file is not locked, not there, or no file") {
  SocketDirectory directory;
  std::string path = directory.path() + "/recorder-1";
  SECTION("not locked") { ::close(::open(path.c_str(), O_RDONLY | O_CREAT | O_CLOEXEC, 0444)); }
  SECTION("not there") {}
  SECTION("a FIFO that nobody writes to") { REQUIRE(::mkfifo(path.c_str(), 0644) == 0); }
  SECTION("a folder") { path = directory.path(); }
  SECTION("too long a name") { path += std::string(5'000, 'x'); }
  const std::string log = directory.path() + "/log";
  HostProcess host(directory, {{"PILLION_RECORDER", path}, {"PILLION_LOG", log}});
  Peer peer(host.socket_path());
  CHECK((hello_of(peer).flags & PILLION_HELLO_HELD) == 0);
  std::ifstream file(log);
  const std::string said{std::istreambuf_iterator<char>(file), {}};
  CHECK(said.find("connected with pid") != std::string::npos);
  CHECK(said.find("recorder") == std::string::npos);  // it was not waited for, in vain
}

TEST_CASE("a refused arming and a signal leave a waiting program as it would be") {
  SECTION("refused, then START") {
    HeldHost at(Environment{{"FAKE_REFUSE", "1"}});
    Peer peer(at.socket());
    static_cast<void>(hello_of(peer));
    SessionOffer offer(1);
    peer.send(PILLION_ARM, offer.arm, offer.fds());
    static_cast<void>(peer.expect<pillion_refused>(PILLION_REFUSED));
    peer.send(PILLION_START, pillion_start{});
    CHECK(at.goes_on());
  }
  SECTION("SIGTERM ends it at once") {
    HeldHost at;
    const auto socket = at.socket();
    const auto begin = socket.find('-', socket.rfind("pillion-") + 8) + 1;
    const pid_t pid = std::stoi(socket.substr(begin));
    REQUIRE(::kill(pid, SIGTERM) == 0);
    REQUIRE(at.goes_on());
    CHECK_THROWS(at.host.get());  // it never said ready
  }
}
