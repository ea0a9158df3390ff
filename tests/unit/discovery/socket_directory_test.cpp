// SPDX-License-Identifier: Apache-2.0
#include "discovery/socket_directory.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <functional>
#include <vector>

#include <catch2/catch_test_macros.hpp>

#include "base/clock.h"
#include "temporary_directory.h"

using namespace std::chrono_literals;
using namespace pillion;
using namespace pillion::discovery;

namespace {

UniqueFd bind_socket(const std::string& path) {
  UniqueFd fd(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  REQUIRE(path.size() < sizeof(address.sun_path));
  std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
  REQUIRE(::bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0);
  return fd;
}

std::string name_of(unsigned pid) { return "pillion-1-" + std::to_string(pid) + "-3.sock"; }

struct Seen final : SocketDirectoryObserver {
  void on_found(const ShimAddress& address) override { found.push_back(address.pid); }
  void on_lost(const ShimAddress& address) override { lost.push_back(address.pid); }
  std::vector<unsigned> found;
  std::vector<unsigned> lost;
};

struct Fixture {
  explicit Fixture(SocketDirectoryOptions options) {
    loop = std::move(*EventLoop::create());
    auto made = SocketDirectory::create(*loop, std::move(options), seen);
    REQUIRE(made.has_value());
    directory = std::move(*made);
  }
  bool run_until(const std::function<bool()>& condition) const {
    const std::uint64_t end = monotonic_ns() + 10'000'000'000;
    while (!condition() && monotonic_ns() < end) (void)loop->run_once(100ms);
    return condition();
  }
  Seen seen;
  std::unique_ptr<EventLoop> loop;
  std::unique_ptr<SocketDirectory> directory;
};

SocketDirectoryOptions options_for(const std::string& path) {
  SocketDirectoryOptions options;
  options.path = path;
  options.rescan = 1h;  // what is seen then is seen by inotify
  return options;
}

}  // namespace

TEST_CASE("sockets that are there, come and go") {
  const TemporaryDirectory place;
  const UniqueFd first = bind_socket(place / name_of(10));
  Fixture f(options_for(place.path()));
  f.directory->start();
  CHECK(f.seen.found == std::vector<unsigned>{10});
  const UniqueFd second = bind_socket(place / name_of(11));
  REQUIRE(f.run_until([&] { return f.seen.found.size() == 2; }));
  CHECK(f.seen.found[1] == 11);
  ::unlink((place / name_of(10)).c_str());
  REQUIRE(f.run_until([&] { return !f.seen.lost.empty(); }));
  CHECK(f.seen.lost == std::vector<unsigned>{10});
  CHECK(f.directory->report().sockets == 1);
}

TEST_CASE("the same name bound anew is found anew: exec keeps pid and start time") {
  const TemporaryDirectory place;
  UniqueFd socket = bind_socket(place / name_of(10));
  Fixture f(options_for(place.path()));
  f.directory->start();
  // The old inode stays in use, so that the new one cannot get its number.
  const UniqueFd keep(::open((place / name_of(10)).c_str(), O_PATH));
  ::unlink((place / name_of(10)).c_str());
  const UniqueFd anew = bind_socket(place / name_of(10));
  REQUIRE(f.run_until([&] { return f.seen.found.size() == 2; }));
  CHECK(f.seen.found == std::vector<unsigned>{10, 10});
}

TEST_CASE("a directory that comes later, goes, and comes back") {
  const TemporaryDirectory place;
  const std::string path = place / "later";
  auto options = options_for(path);
  options.rescan = 5ms;
  Fixture f(options);
  f.directory->start();
  CHECK_FALSE(f.directory->report().exists);
  CHECK_FALSE(f.directory->report().error.empty());
  std::filesystem::create_directory(path);
  UniqueFd socket = bind_socket(path + "/" + name_of(20));
  REQUIRE(f.run_until([&] { return f.seen.found.size() == 1; }));
  CHECK(f.directory->report().exists);
  std::filesystem::rename(path, place / "moved");
  REQUIRE(f.run_until([&] { return f.seen.lost.size() == 1; }));
  std::filesystem::create_directory(path);
  socket = bind_socket(path + "/" + name_of(21));
  REQUIRE(f.run_until([&] { return f.seen.found.size() == 2; }));
  CHECK(f.seen.found[1] == 21);
}

TEST_CASE("after the directory was replaced, inotify follows the new one") {
  const TemporaryDirectory place;
  const std::string path = place / "sockets";
  std::filesystem::create_directory(path);
  Fixture f(options_for(path));
  f.directory->start();
  // Replaced before the loop looks; moving it away is an event of the old one.
  std::filesystem::rename(path, place / "moved");
  std::filesystem::create_directory(path);
  const auto scans = f.directory->report().scans;
  REQUIRE(f.run_until([&] { return f.directory->report().scans > scans; }));
  const UniqueFd socket = bind_socket(path + "/" + name_of(30));
  REQUIRE(f.run_until([&] { return f.seen.found.size() == 1; }));
}

TEST_CASE("garbage is counted by kind and never found") {
  const TemporaryDirectory place;
  const UniqueFd file(::open((place / name_of(1)).c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
  REQUIRE(::mkfifo((place / name_of(2)).c_str(), 0600) == 0);
  const UniqueFd target = bind_socket(place / "elsewhere");
  REQUIRE(::symlink((place / "elsewhere").c_str(), (place / name_of(3)).c_str()) == 0);
  REQUIRE(::symlink("nowhere", (place / name_of(4)).c_str()) == 0);
  std::filesystem::create_directory(place / name_of(5));
  const UniqueFd odd(::open((place / "\xff\n.sock").c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
  Fixture f(options_for(place.path()));
  f.directory->start();
  CHECK(f.seen.found.empty());
  CHECK(f.directory->report().not_sockets == 5);
  CHECK(f.directory->report().other_names == 2);
  CHECK(f.directory->report().sockets == 0);
}

TEST_CASE("10,000 files beside one shim") {
  const TemporaryDirectory place;
  for (int i = 0; i < 10'000; ++i) {
    const UniqueFd file(
        ::open((place / ("junk" + std::to_string(i))).c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
    REQUIRE(file.valid());
  }
  const UniqueFd socket = bind_socket(place / name_of(50));
  Fixture f(options_for(place.path()));
  f.directory->start();
  CHECK(f.seen.found == std::vector<unsigned>{50});
  CHECK(f.directory->report().other_names == 10'000);
  CHECK_FALSE(f.directory->report().over_entries_max);
}

TEST_CASE("limits are kept and reported") {
  const TemporaryDirectory place;
  std::vector<UniqueFd> sockets;
  for (unsigned pid = 1; pid <= 20; ++pid) sockets.push_back(bind_socket(place / name_of(pid)));
  SECTION("shims followed") {
    auto options = options_for(place.path());
    options.sockets_max = 8;
    Fixture f(options);
    f.directory->start();
    CHECK(f.seen.found.size() == 8);
    CHECK(f.directory->report().over_sockets_max == 12);
  }
  SECTION("names read: one not read is not lost") {
    auto options = options_for(place.path());
    options.entries_max = 15;
    options.rescan = 5ms;
    Fixture f(options);
    f.directory->start();
    CHECK(f.seen.found.size() == 15);
    CHECK(f.directory->report().over_entries_max);
    REQUIRE(f.run_until([&] { return f.directory->report().scans > 3; }));
    CHECK(f.seen.lost.empty());
  }
}

TEST_CASE("a name that nobody listens at is removed in the end, unless it has become another socket's") {
  const TemporaryDirectory place;
  const std::string path = place / name_of(61);
  for (const bool replaced : {false, true}) {
    CAPTURE(replaced);
    UniqueFd socket = bind_socket(path);
    Fixture f(options_for(place.path()));
    f.directory->start();
    for (int refused = 0; refused < 5; ++refused) f.directory->mark_stale(path);
    CHECK(std::filesystem::exists(path));
    if (replaced) {
      std::filesystem::remove(path);
      const UniqueFd keeps_the_inode = std::move(socket);
      socket = bind_socket(path);
    }
    f.directory->mark_stale(path);
    CHECK(std::filesystem::exists(path) == replaced);
  }
}

TEST_CASE("a stale socket is found again later and later, an ended session when asked") {
  const TemporaryDirectory place;
  const UniqueFd socket = bind_socket(place / name_of(60));
  Fixture f(options_for(place.path()));
  f.directory->start();
  const std::string path = place / name_of(60);
  const std::uint64_t start = monotonic_ns();
  f.directory->mark_stale(path);
  CHECK(f.directory->report().stale == 1);
  REQUIRE(f.run_until([&] { return f.seen.found.size() == 2; }));
  CHECK(monotonic_ns() - start >= 100'000'000);
  const std::uint64_t again = monotonic_ns();
  f.directory->mark_stale(path);
  REQUIRE(f.run_until([&] { return f.seen.found.size() == 3; }));
  CHECK(monotonic_ns() - again >= 200'000'000);
  f.directory->mark_alive(path);
  CHECK(f.directory->report().stale == 0);
  f.directory->find_again(path, 1ms);
  REQUIRE(f.run_until([&] { return f.seen.found.size() == 4; }));
}
