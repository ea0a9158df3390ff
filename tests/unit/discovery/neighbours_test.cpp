// SPDX-License-Identifier: Apache-2.0
#include "discovery/neighbours.h"

#include <filesystem>
#include <fstream>

#include <catch2/catch_test_macros.hpp>

#include "temporary_directory.h"

namespace pillion::discovery {
namespace {

using std::chrono::milliseconds;

struct Proc {
  void put(const std::string& pid, const std::string& name, char state = 'S') const {
    std::filesystem::create_directories(folder / pid);
    std::ofstream(folder / pid + "/stat") << pid << " (" << name << ") " << state << " 1 1 1\n";
  }
  void take(const std::string& pid) const { std::filesystem::remove_all(folder / pid); }

  TemporaryDirectory folder;
};

TEST_CASE("neighbours are neither the pod's pause, nor pillion, nor those that have ended") {
  const Proc proc;
  CHECK_FALSE(has_neighbours(proc.folder.path()).has_value());  // no /proc/self
  proc.put("self", "pillion");
  proc.put("1", "pause");
  proc.put("7", "pillion");
  proc.put("31", "pillion", 'R');  // a probe
  proc.put("40", "python3", 'Z');
  proc.put("sys", "not a process");
  CHECK(has_neighbours(proc.folder.path()) == false);
  proc.put("41", "a) Z (b");
  std::filesystem::create_directory(proc.folder / "42");  // gone while one looks
  CHECK(has_neighbours(proc.folder.path()) == true);
  CHECK_FALSE(has_neighbours(proc.folder / "none").has_value());
}

TEST_CASE("there is always somebody here on this machine") { CHECK(has_neighbours() == true); }

TEST_CASE("the last one here knows it after its patience, and only if others have been there") {
  const Proc proc;
  proc.put("self", "pillion");
  proc.put("8", "pillion");
  LastOneHere last(milliseconds(1'000), proc.folder.path());
  const LastOneHere::Clock::time_point start;
  CHECK_FALSE(last.look(start));
  CHECK_FALSE(last.look(start + milliseconds(60'000)));
  proc.put("9", "python3");
  CHECK_FALSE(last.look(start + milliseconds(61'000)));
  proc.take("9");
  CHECK_FALSE(last.look(start + milliseconds(62'000)));
  CHECK_FALSE(last.look(start + milliseconds(62'900)));
  proc.put("10", "python3");  // another container begins
  CHECK_FALSE(last.look(start + milliseconds(63'000)));
  proc.take("10");
  CHECK_FALSE(last.look(start + milliseconds(64'000)));
  CHECK(last.look(start + milliseconds(65'000)));
}

}  // namespace
}  // namespace pillion::discovery
