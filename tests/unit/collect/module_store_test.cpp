// SPDX-License-Identifier: Apache-2.0
#include "collect/module_store.h"

#include <catch2/catch_test_macros.hpp>

#include "abi/pillion_abi.h"

using namespace pillion::collect;

namespace {

ModuleBytes module_of(std::uint32_t id, std::size_t bytes) {
  ModuleBytes module;
  module.module = id;
  module.origin = PILLION_MODULE_LOADED;
  module.bytes.resize(bytes);
  return module;
}

}  // namespace

TEST_CASE("the oldest leave first, by number and by bytes, counted") {
  ModuleStore store(3, 100);
  for (std::uint32_t id = 1; id <= 4; ++id) store.add(1, module_of(id, 10));
  CHECK(store.find(1, 1) == nullptr);
  CHECK(store.find(1, 2) != nullptr);
  CHECK(store.counts().evicted == 1);
  store.add(1, module_of(5, 85));
  CHECK(store.find(1, 2) == nullptr);
  CHECK(store.find(1, 3) == nullptr);
  CHECK(store.find(1, 4) != nullptr);
  CHECK(store.counts().bytes == 95);
  CHECK(store.counts().modules == 2);
  CHECK(store.counts().evicted == 3);
}

TEST_CASE("what is found outlives its eviction") {
  ModuleStore store(1, 100);
  store.add(1, module_of(1, 10));
  const auto kept = store.find(1, 1);
  store.add(1, module_of(2, 10));
  CHECK(store.find(1, 1) == nullptr);
  CHECK(kept->bytes.size() == 10);
}

TEST_CASE("a module larger than the store stays out and pushes nothing out") {
  ModuleStore store(3, 100);
  store.add(1, module_of(1, 50));
  store.add(1, module_of(2, 101));
  CHECK(store.counts().too_large == 1);
  CHECK(store.counts().modules == 1);
}

TEST_CASE("the same id again replaces, and targets are apart") {
  ModuleStore store(8, 100);
  store.add(1, module_of(1, 50));
  store.add(1, module_of(1, 20));
  store.add(2, module_of(1, 30));
  CHECK(store.counts().replaced == 1);
  CHECK(store.find(1, 1)->bytes.size() == 20);
  CHECK(store.of_target(1).size() == 1);
  store.forget(1);
  CHECK(store.of_target(1).empty());
  CHECK(store.find(2, 1)->bytes.size() == 30);
  CHECK(store.counts().bytes == 30);
}
