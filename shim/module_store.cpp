// SPDX-License-Identifier: Apache-2.0
#include "module_store.h"

#include "ring_writer.h"
#include "system_calls.h"

namespace pillion::shim {
namespace {

// Some launches pass before every thread has launched from every module: a second without news.
constexpr std::uint32_t kQuietTicks = 10;

std::uint64_t mixed(std::uint64_t value) {
  value *= 0x9e37'79b9'7f4a'7c15u;
  return value ^ value >> 32;
}

using Marks = KeyTable<16384>;

}  // namespace

bool ModuleStore::begin(pillion_region_header* arena, std::uint64_t bytes, const Sinks& sinks) {
  sinks_ = sinks;
  news_.store(1, std::memory_order_relaxed);
  news_seen_ = 0;
  quiet_ticks_ = 0;
  full_.store(false, std::memory_order_relaxed);
  functions_.clear();
  modules_.clear();
  if (!arena_.open(arena, bytes)) return false;
  open_.store(true, std::memory_order_release);
  return true;
}

void ModuleStore::end() {
  open_.store(false, std::memory_order_relaxed);
  // Only this thread waits; one of the program's never does. A copy of 64 MiB takes some 20 ms.
  while (!try_lock()) sleep_ns(1'000'000);
  arena_.close();
  unlock();
}

bool ModuleStore::try_lock() {
  std::uint32_t seen = 0;
  return lock_.compare_exchange_strong(seen, 1, std::memory_order_acquire, std::memory_order_relaxed);
}

void ModuleStore::unlock() { lock_.store(0, std::memory_order_release); }

void ModuleStore::on_resource(std::uint32_t cbid, const cupti::ResourceData* resource, std::uint32_t tid) {
  if (!open_.load(std::memory_order_relaxed) || resource->resource_descriptor == nullptr) return;
  switch (cbid) {
    case cupti::kResourceModuleLoaded:
      store(PILLION_MODULE_LOADED, resource, tid);
      break;
    case cupti::kResourceModuleProfiled:
      store(PILLION_MODULE_PROFILED, resource, tid);
      break;
    case cupti::kResourceModuleUnloadStarting:
      store(PILLION_MODULE_UNLOADED, resource, tid);
      break;
    default:
      break;
  }
}

void ModuleStore::store(std::uint32_t origin, const cupti::ResourceData* resource, std::uint32_t tid) {
  const auto* module = static_cast<const cupti::ModuleResourceData*>(resource->resource_descriptor);
  bool is_new = false;
  Marks::Slot* slot = modules_.find_or_insert(mixed(module->module_id + std::uint64_t{1}), &is_new);
  if (is_new) news_.fetch_add(1, std::memory_order_relaxed);
  if (slot == nullptr) return;  // thousands of modules in one session: no more
  const bool unloaded = origin == PILLION_MODULE_UNLOADED;
  if (!unloaded) {
    if ((slot->load(std::memory_order_relaxed) & Marks::kMarkA) != 0) return;
    if (module->cubin == nullptr || module->cubin_size == 0) return;
    if (origin == PILLION_MODULE_PROFILED && full_.load(std::memory_order_relaxed)) return;
  }
  if (!try_lock()) {
    news_.fetch_add(1, std::memory_order_relaxed);  // MODULE_PROFILED stays on and brings it again
    return;
  }
  const Outcome outcome = store_locked(origin, resource, *module);
  unlock();
  switch (outcome) {
    case Outcome::stored:
      // The number of an unloaded module may come back with other bytes.
      if (unloaded) slot->fetch_and(~Marks::kMarks, std::memory_order_relaxed);
      if (!unloaded) slot->fetch_or(Marks::kMarkA, std::memory_order_relaxed);
      if (!unloaded) count(sinks_.counters, tid, &pillion_counters::modules_stored);
      break;
    case Outcome::too_large:
      slot->fetch_or(Marks::kMarkA, std::memory_order_relaxed);
      count(sinks_.counters, tid, &pillion_counters::modules_too_large);
      break;
    case Outcome::full:
      full_.store(true, std::memory_order_relaxed);
      if ((slot->fetch_or(Marks::kMarkB, std::memory_order_relaxed) & Marks::kMarkB) != 0) break;
      news_.fetch_add(1, std::memory_order_relaxed);  // again while MODULE_PROFILED is on
      count(sinks_.counters, tid, &pillion_counters::modules_dropped);
      break;
    case Outcome::closed:
      break;
  }
}

ModuleStore::Outcome ModuleStore::store_locked(std::uint32_t origin, const cupti::ResourceData* resource,
                                               const cupti::ModuleResourceData& module) {
  if (!open_.load(std::memory_order_relaxed)) return Outcome::closed;
  const std::uint64_t size = origin == PILLION_MODULE_UNLOADED ? 0 : module.cubin_size;
  if (size > kModuleBytesMax || size > arena_.capacity()) return Outcome::too_large;
  std::uint32_t context = 0;
  if (sinks_.context_id != nullptr && resource->context != nullptr) {
    if (sinks_.context_id(resource->context, &context) != cupti::kSuccess) context = 0;
  }
  const bool stored = arena_.store({origin, module.module_id, context, monotonic_ns(), module.cubin, size});
  return stored ? Outcome::stored : Outcome::full;
}

bool ModuleStore::replay(const ModuleArena::Module& module, std::uint32_t tid) {
  if (module.size > kModuleBytesMax || module.size > arena_.capacity()) {
    count(sinks_.counters, tid, &pillion_counters::modules_too_large);
    return true;
  }
  bool is_new = false;
  Marks::Slot* slot = modules_.find_or_insert(mixed(module.module + std::uint64_t{1}), &is_new);
  if (slot == nullptr) return true;
  if ((slot->load(std::memory_order_relaxed) & Marks::kMarkA) != 0) return true;  // MODULE_PROFILED was first
  if (!try_lock()) return false;
  const bool stored = arena_.store(module);
  unlock();
  if (!stored) return false;
  slot->fetch_or(Marks::kMarkA, std::memory_order_relaxed);
  count(sinks_.counters, tid, &pillion_counters::modules_stored);
  return true;
}

bool ModuleStore::saw_function(std::uint64_t function) {
  bool is_new = false;
  (void)functions_.find_or_insert(mixed(function), &is_new);
  if (is_new) news_.fetch_add(1, std::memory_order_relaxed);
  return is_new;
}

bool ModuleStore::profiled_wanted() {
  full_.store(false, std::memory_order_relaxed);
  const std::uint32_t news = news_.load(std::memory_order_relaxed);
  quiet_ticks_ = news != news_seen_ ? 0 : quiet_ticks_ + 1;
  news_seen_ = news;
  return quiet_ticks_ < kQuietTicks;
}

}  // namespace pillion::shim
