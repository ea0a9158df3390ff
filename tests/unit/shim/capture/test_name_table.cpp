// SPDX-License-Identifier: Apache-2.0
#include <catch2/catch_test_macros.hpp>
#include <cstring>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "../control/shared_region.h"
#include "name_table.h"
#include "system_calls.h"

using namespace pillion::shim;
using pillion::shim::test::SharedRegion;

namespace {

class EventRings {
 public:
  explicit EventRings(std::uint32_t ring_bytes = 1 << 20)
      : region_({PILLION_REGION_EVENTS, 1, 1, ring_bytes}) {
    set_.open(region_.base(), region_.header());
  }
  ~EventRings() { (void)set_.close(100); }
  RingSet& set() { return set_; }

  // id -> text of the NAME records since the last call; each id may come once only.
  std::map<std::uint32_t, std::string> names() {
    std::map<std::uint32_t, std::string> found;
    for (const auto& record : region_.drain(0)) {
      pillion_name name{};
      std::memcpy(&name, record.data(), sizeof(name));
      REQUIRE(name.header.type == PILLION_RECORD_NAME);
      REQUIRE(sizeof(name) + name.length <= record.size());
      const bool fresh =
          found
              .emplace(name.id,
                       std::string(reinterpret_cast<const char*>(record.data()) + sizeof(name), name.length))
              .second;
      CHECK(fresh);
    }
    return found;
  }

 private:
  SharedRegion region_;
  RingSet set_{};
};

std::unique_ptr<NameTable> make_table() {
  auto table = std::make_unique<NameTable>();
  REQUIRE(table->begin());
  return table;
}

}  // namespace

TEST_CASE("a name is sent once and keeps its id") {
  EventRings rings;
  const auto table = make_table();
  const std::uint32_t first = table->intern("_Z4axpyPfS_", rings.set(), this_tid());
  const std::uint32_t second = table->intern("_Z4spinl", rings.set(), this_tid());
  CHECK(first != 0);
  CHECK(first != second);
  std::string copy = "_Z4axpyPfS_";  // another address, the same text
  CHECK(table->intern(copy.c_str(), rings.set(), this_tid()) == first);
  CHECK(rings.names() == std::map<std::uint32_t, std::string>{{first, "_Z4axpyPfS_"}, {second, "_Z4spinl"}});
  copy[3] = 'X';
  CHECK(table->intern(copy.c_str(), rings.set(), this_tid()) != first);
}

TEST_CASE("a name whose record found no room is sent later") {
  EventRings rings(4096);
  const auto table = make_table();
  const std::string filler(1900, 'f');
  (void)table->intern((filler + "1").c_str(), rings.set(), this_tid());
  (void)table->intern((filler + "2").c_str(), rings.set(), this_tid());
  const std::uint32_t late = table->intern((filler + "3").c_str(), rings.set(), this_tid());
  CHECK(late != 0);
  CHECK(rings.names().count(late) == 0);
  CHECK(table->retry_unsent(rings.set(), this_tid()) == 0);
  CHECK(rings.names().at(late) == filler + "3");
  CHECK(table->retry_unsent(rings.set(), this_tid()) == 0);
  CHECK(rings.names().empty());
}

TEST_CASE("a new session sends names anew") {
  EventRings rings;
  const auto table = make_table();
  (void)table->intern("kernel", rings.set(), this_tid());
  CHECK(rings.names().size() == 1);
  REQUIRE(table->begin());
  const std::uint32_t id = table->intern("kernel", rings.set(), this_tid());
  CHECK(rings.names() == std::map<std::uint32_t, std::string>{{id, "kernel"}});
}

TEST_CASE("an endless name is cut, an endless number of names refused") {
  EventRings rings(1 << 22);
  const auto table = make_table();
  const std::string endless(100'000, 'n');
  const std::uint32_t id = table->intern(endless.c_str(), rings.set(), this_tid());
  CHECK(rings.names().at(id).size() == NameTable::kLengthMax);
  std::uint32_t refused = 0;
  for (std::uint32_t i = 0; i < NameTable::kSlots + 1000; ++i) {
    if (table->intern(("kernel_" + std::to_string(i)).c_str(), rings.set(), this_tid()) == 0) ++refused;
  }
  CHECK(refused >= 1000);
  CHECK(table->refused() == refused);
}

TEST_CASE("threads that intern the same names agree on what ids mean") {
  EventRings rings(1 << 22);
  const auto table = make_table();
  constexpr int kThreads = 4;
  constexpr int kNames = 300;
  std::vector<std::map<std::uint32_t, std::string>> seen(kThreads);
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < kNames; ++i) {
        const std::string name = "_ZN5torch6kernel" + std::to_string(i) + "E";
        seen[t][table->intern(name.c_str(), rings.set(), this_tid())] = name;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  (void)table->retry_unsent(rings.set(), this_tid());
  std::map<std::uint32_t, std::string> all;
  for (const auto& map : seen) {
    for (const auto& [id, name] : map) {
      CHECK(id != 0);
      CHECK(all.emplace(id, name).first->second == name);
    }
  }
}
