// SPDX-License-Identifier: Apache-2.0
#include <atomic>
#include <catch2/catch_test_macros.hpp>
#include <cstring>
#include <map>
#include <memory>
#include <random>
#include <vector>

#include "module_arena.h"
#include "module_keeper.h"
#include "module_store.h"
#include "ring_writer.h"

using namespace pillion;
using namespace pillion::shim;

namespace {

// An arena as the sidecar makes it, and the sidecar's end of it.
class Arena {
 public:
  Arena(std::uint32_t slots, std::uint64_t data_bytes) {
    const std::uint64_t data_offset = 128 + slots * sizeof(pillion_module_slot);
    memory_.resize((data_offset + data_bytes + 7) / 8);
    bytes_ = data_offset + data_bytes;
    header()->kind = PILLION_REGION_ARENA;
    header()->ring_count = slots;
    header()->rings_offset = 128;
    header()->data_offset = data_offset;
  }

  pillion_region_header* header() { return reinterpret_cast<pillion_region_header*>(memory_.data()); }
  [[nodiscard]] std::uint64_t bytes() const { return bytes_; }
  pillion_module_slot& slot(std::uint32_t index) {
    return reinterpret_cast<pillion_module_slot*>(base() + header()->rings_offset)[index];
  }

  struct Taken {
    pillion_module_slot slot;
    std::vector<std::uint8_t> bytes;
  };

  // What the sidecar does: copies out one full slot and frees it.
  Taken take(std::uint32_t index) {
    Taken taken{slot(index), {}};
    const std::uint8_t* from = base() + header()->data_offset + taken.slot.offset;
    REQUIRE(taken.slot.offset + taken.slot.bytes <= bytes_ - header()->data_offset);
    taken.bytes.assign(from, from + taken.slot.bytes);
    std::atomic_ref<std::uint32_t>(slot(index).state).store(PILLION_SLOT_EMPTY, std::memory_order_release);
    return taken;
  }

  std::vector<std::uint32_t> full() {
    std::vector<std::uint32_t> indices;
    for (std::uint32_t i = 0; i < header()->ring_count; ++i) {
      if (slot(i).state == PILLION_SLOT_FULL) indices.push_back(i);
    }
    return indices;
  }

 private:
  std::uint8_t* base() { return reinterpret_cast<std::uint8_t*>(memory_.data()); }

  std::vector<std::uint64_t> memory_;
  std::uint64_t bytes_ = 0;
};

std::vector<std::uint8_t> module_bytes(std::uint32_t id, std::size_t size) {
  std::vector<std::uint8_t> bytes(size);
  for (std::size_t i = 0; i < size; ++i) bytes[i] = static_cast<std::uint8_t>(id * 131 + i * 7);
  return bytes;
}

bool put(ModuleArena& arena, std::uint32_t id, const std::vector<std::uint8_t>& bytes) {
  return arena.store({PILLION_MODULE_LOADED, id, 1, 2, bytes.data(), bytes.size()});
}

struct Store {
  Arena arena;
  std::unique_ptr<ModuleStore> store = std::make_unique<ModuleStore>();
  pillion_counters counters[kCounterShards] = {};

  Store(std::uint32_t slots, std::uint64_t bytes) : arena(slots, bytes) {
    REQUIRE(store->begin(arena.header(), arena.bytes(),
                         {counters, +[](void*, std::uint32_t* id) -> cupti::Result {
                            *id = 17;
                            return 0;
                          }}));
  }

  void call(std::uint32_t cbid, std::uint32_t id, const std::vector<std::uint8_t>& bytes) {
    cupti::ModuleResourceData module{id, bytes.size(), reinterpret_cast<const char*>(bytes.data())};
    int context = 0;
    const cupti::ResourceData resource{&context, nullptr, &module};
    store->on_resource(cbid, &resource, 0);
  }
};

}  // namespace

TEST_CASE("modules arrive byte for byte, whatever the order they are taken in") {
  Arena arena(8, 64 * 1024);
  auto writer = std::make_unique<ModuleArena>();
  REQUIRE(writer->open(arena.header(), arena.bytes()));
  std::mt19937 random(1);
  std::map<std::uint32_t, std::size_t> sizes;
  std::uint32_t stored = 0;
  std::uint32_t refused = 0;
  for (std::uint32_t id = 1; id < 3000; ++id) {
    const std::size_t size = 1 + random() % 30'000;
    if (put(*writer, id, module_bytes(id, size))) {
      sizes[id] = size;
      ++stored;
    } else {
      ++refused;
    }
    auto full = arena.full();
    if (full.empty() || random() % 3 == 0) continue;
    const Arena::Taken taken = arena.take(full[random() % full.size()]);
    REQUIRE(taken.bytes == module_bytes(taken.slot.module, sizes.at(taken.slot.module)));
  }
  for (const std::uint32_t index : arena.full()) {
    const Arena::Taken taken = arena.take(index);
    REQUIRE(taken.bytes == module_bytes(taken.slot.module, sizes.at(taken.slot.module)));
  }
  CHECK(stored > 1000);
  CHECK(refused > 100);
}

TEST_CASE("a full slot's bytes are never written over") {
  Arena arena(4, 10'000);
  auto writer = std::make_unique<ModuleArena>();
  REQUIRE(writer->open(arena.header(), arena.bytes()));
  CHECK(put(*writer, 1, module_bytes(1, 4000)));
  CHECK(put(*writer, 2, module_bytes(2, 4000)));
  CHECK_FALSE(put(*writer, 3, module_bytes(3, 4000)));
  CHECK(put(*writer, 4, module_bytes(4, 1000)));
  CHECK(arena.take(0).bytes == module_bytes(1, 4000));
  CHECK(put(*writer, 5, module_bytes(5, 4000)));
  CHECK_FALSE(put(*writer, 6, module_bytes(6, 8000)));
  CHECK(put(*writer, 7, module_bytes(7, 100)));
  CHECK_FALSE(put(*writer, 8, module_bytes(8, 100)));  // no slot
}

TEST_CASE("a hostile arena header is refused, and hostile slots harm nobody") {
  Arena arena(8, 4096);
  auto writer = std::make_unique<ModuleArena>();
  arena.header()->rings_offset = ~std::uint64_t{7};
  CHECK_FALSE(writer->open(arena.header(), arena.bytes()));
  arena.header()->rings_offset = 128;
  arena.header()->data_offset = arena.bytes() + 1;
  CHECK_FALSE(writer->open(arena.header(), arena.bytes()));
  arena.header()->data_offset = 128 + 8 * sizeof(pillion_module_slot);
  arena.header()->ring_count = 0;
  CHECK_FALSE(writer->open(arena.header(), arena.bytes()));
  arena.header()->ring_count = 8;
  REQUIRE(writer->open(arena.header(), arena.bytes()));
  for (std::uint32_t i = 0; i < 8; ++i) {
    arena.slot(i).offset = ~std::uint64_t{0};
    arena.slot(i).bytes = ~std::uint64_t{0};
  }
  CHECK(put(*writer, 1, module_bytes(1, 1000)));
  CHECK(arena.slot(0).offset + arena.slot(0).bytes <= 4096);
}

TEST_CASE("each module is handed over once, whichever callback brings it") {
  Store test(16, 1 << 20);
  const auto bytes = module_bytes(5, 1000);
  test.call(cupti::kResourceModuleProfiled, 5, bytes);
  test.call(cupti::kResourceModuleProfiled, 5, bytes);
  test.call(cupti::kResourceModuleLoaded, 5, bytes);
  test.call(cupti::kResourceModuleLoaded, 6, module_bytes(6, 10));
  REQUIRE(test.arena.full().size() == 2);
  const Arena::Taken first = test.arena.take(0);
  CHECK(first.slot.origin == PILLION_MODULE_PROFILED);
  CHECK(first.slot.module == 5);
  CHECK(first.slot.context == 17);
  CHECK(first.bytes == bytes);
  CHECK(test.arena.take(1).slot.origin == PILLION_MODULE_LOADED);
  CHECK(test.counters[0].modules_stored == 2);
  test.store->end();
}

TEST_CASE("an unloaded module is told, and its number may come back") {
  Store test(16, 1 << 20);
  test.call(cupti::kResourceModuleLoaded, 5, module_bytes(5, 100));
  test.call(cupti::kResourceModuleUnloadStarting, 5, {});
  test.call(cupti::kResourceModuleLoaded, 5, module_bytes(9, 200));
  REQUIRE(test.arena.full().size() == 3);
  CHECK(test.arena.take(1).slot.origin == PILLION_MODULE_UNLOADED);
  CHECK(test.arena.take(2).bytes == module_bytes(9, 200));
}

TEST_CASE("a module that finds no room is counted once and comes again") {
  Store test(2, 4096);
  test.call(cupti::kResourceModuleProfiled, 1, module_bytes(1, 4000));
  for (int i = 0; i < 5; ++i) test.call(cupti::kResourceModuleProfiled, 2, module_bytes(2, 4000));
  CHECK(test.counters[0].modules_dropped == 1);
  CHECK(test.store->profiled_wanted());
  (void)test.arena.take(0);
  test.call(cupti::kResourceModuleProfiled, 2, module_bytes(2, 4000));
  CHECK(test.counters[0].modules_stored == 2);
  CHECK(test.counters[0].modules_dropped == 1);
}

TEST_CASE("a module that can never fit is counted as too large") {
  Store test(2, 4096);
  test.call(cupti::kResourceModuleProfiled, 1, module_bytes(1, 5000));
  test.call(cupti::kResourceModuleProfiled, 1, module_bytes(1, 5000));
  CHECK(test.counters[0].modules_too_large == 1);
  CHECK(test.counters[0].modules_dropped == 0);
}

TEST_CASE("MODULE_PROFILED is wanted until nothing new has been seen for a while") {
  Store test(16, 1 << 20);
  int ticks = 0;
  while (test.store->profiled_wanted()) REQUIRE(++ticks < 100);
  CHECK(ticks >= 5);
  CHECK(test.store->saw_function(0x1234));
  CHECK(test.store->profiled_wanted());
  for (int i = 0; i < ticks; ++i) {
    CHECK_FALSE(test.store->saw_function(0x1234));  // not new any more
    (void)test.store->profiled_wanted();
  }
  CHECK_FALSE(test.store->profiled_wanted());
}

TEST_CASE("nothing is stored after the end") {
  Store test(16, 1 << 20);
  test.store->end();
  test.call(cupti::kResourceModuleLoaded, 1, module_bytes(1, 100));
  CHECK(test.arena.full().empty());
}

namespace {

void tell(ModuleKeeper& keeper, std::uint32_t cbid, std::uint32_t id,
          const std::vector<std::uint8_t>& bytes) {
  cupti::ModuleResourceData module{id, bytes.size(), reinterpret_cast<const char*>(bytes.data())};
  const cupti::ResourceData resource{nullptr, nullptr, &module};
  keeper.on_resource(cbid, &resource, nullptr, 77);
}

}  // namespace

TEST_CASE("what was kept is handed over at the attach, unloaded modules under ids of their own") {
  const auto keeper = std::make_unique<ModuleKeeper>();
  tell(*keeper, cupti::kResourceModuleLoaded, 1, module_bytes(1, 5000));
  tell(*keeper, cupti::kResourceModuleUnloadStarting, 1, {});
  tell(*keeper, cupti::kResourceModuleLoaded, 1, module_bytes(2, 6000));  // the id again, for another module
  Store test(8, 64 * 1024);
  keeper->begin_replay();
  CHECK(keeper->replay(*test.store, 77));
  REQUIRE(test.arena.full().size() == 2);
  const Arena::Taken gone = test.arena.take(0);
  CHECK(gone.slot.module == (ModuleKeeper::kUnloadedIds | 1));
  CHECK(gone.bytes == module_bytes(1, 5000));
  const Arena::Taken there = test.arena.take(1);
  CHECK(there.slot.module == 1);
  CHECK(there.bytes == module_bytes(2, 6000));
  CHECK(test.counters[77 % kCounterShards].modules_stored == 2);
  // MODULE_PROFILED does not bring it a second time; the next session has all of them again.
  test.call(cupti::kResourceModuleProfiled, 1, module_bytes(2, 6000));
  CHECK(test.arena.full().empty());
  CHECK(keeper->replay(*test.store, 77));
  CHECK(test.arena.full().empty());
  Store next(8, 64 * 1024);
  keeper->begin_replay();
  CHECK(keeper->replay(*next.store, 77));
  CHECK(next.arena.full().size() == 2);
}

TEST_CASE("an arena smaller than what is kept gets it piece by piece, in the order of loading") {
  const auto keeper = std::make_unique<ModuleKeeper>();
  for (std::uint32_t id = 1; id <= 20; ++id)
    tell(*keeper, cupti::kResourceModuleLoaded, id, module_bytes(id, 4000));
  Store test(4, 16 * 1024);
  keeper->begin_replay();
  std::uint32_t next = 1;
  for (int tick = 0; tick < 20 && next <= 20; ++tick) {
    const bool all = keeper->replay(*test.store, 77);
    const auto full = test.arena.full();
    REQUIRE(!full.empty());
    for (const std::uint32_t index : full) {
      const Arena::Taken taken = test.arena.take(index);
      CHECK(taken.slot.module == next);
      CHECK(taken.bytes == module_bytes(next, 4000));
      ++next;
    }
    CHECK(all == (next > 20));
  }
  CHECK(next == 21);
}

TEST_CASE("512 modules and 64 MiB are kept, the oldest leave first, counted") {
  const auto keeper = std::make_unique<ModuleKeeper>();
  for (std::uint32_t id = 1; id <= ModuleKeeper::kModulesMax + 3; ++id)
    tell(*keeper, cupti::kResourceModuleLoaded, id, module_bytes(id, 100));
  CHECK(keeper->evicted() == 3);
  Store test(1024, 1024 * 1024);
  keeper->begin_replay();
  CHECK(keeper->replay(*test.store, 77));
  CHECK(test.arena.full().size() == ModuleKeeper::kModulesMax);
  CHECK(test.arena.take(0).slot.module == 4);
  tell(*keeper, cupti::kResourceModuleLoaded, 9000, std::vector<std::uint8_t>(ModuleKeeper::kBytesMax));
  CHECK(keeper->evicted() == 3 + ModuleKeeper::kModulesMax);
  tell(*keeper, cupti::kResourceModuleLoaded, 9001, std::vector<std::uint8_t>(ModuleKeeper::kBytesMax + 1));
  CHECK(keeper->evicted() == 4 + ModuleKeeper::kModulesMax);
}
