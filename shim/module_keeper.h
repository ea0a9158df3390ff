// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>

#include "cupti_types.h"
#include "module_store.h"

namespace pillion::shim {

// PILLION_EAGER=1: copies of all modules that were loaded since CUPTI was subscribed to, also of those that
// have been unloaded, in private memory; handed over at each attach. Bounded: the oldest leave first,
// counted. A forked child has none of the copies.
class ModuleKeeper {
 public:
  static constexpr std::uint32_t kModulesMax = 512;
  static constexpr std::uint64_t kBytesMax = std::uint64_t{64} << 20;
  // Of modules that are no more: CUPTI may give the number of one to another.
  static constexpr std::uint32_t kUnloadedIds = 0x8000'0000u;

  // RESOURCE callbacks, on the thread that loads or unloads. Waits for another thread's copy, at most 100 ms;
  // a signal handler's load on top of one is dropped and counted.
  void on_resource(std::uint32_t cbid, const cupti::ResourceData* resource, cupti::GetContextId context_id,
                   std::uint32_t tid);

  // Capture thread, on the attach edge: everything that is kept now is to be handed over.
  void begin_replay();

  // Capture thread: hands over what there is room for, in the order of loading. True when nothing is left.
  [[nodiscard]] bool replay(ModuleStore& store, std::uint32_t tid);

  // Modules that left before their time, or for which there was no memory or no turn.
  [[nodiscard]] std::uint64_t evicted() const { return evicted_.load(std::memory_order_relaxed); }

 private:
  struct Kept {
    void* bytes;  // null: an empty place
    std::uint64_t size;
    std::uint64_t serial;  // from 1, in the order of loading
    std::uint64_t time_ns;
    std::uint32_t module;
    std::uint32_t context;
    bool loaded;
  };

  [[nodiscard]] bool lock(std::uint32_t tid);
  void unlock() { holder_.store(0, std::memory_order_release); }
  void keep(const cupti::ModuleResourceData& module, std::uint32_t context);
  void evict(Kept& kept);
  [[nodiscard]] Kept* oldest();
  [[nodiscard]] Kept* next_to_replay();

  std::atomic<std::uint32_t> holder_{0};  // tid
  std::atomic<std::uint64_t> evicted_{0};
  std::uint64_t bytes_ = 0;
  std::uint64_t serial_ = 0;
  std::uint64_t replayed_ = 0;     // serials up to this one have been handed over
  std::uint64_t replay_last_ = 0;  // the last that is to be
  Kept kept_[kModulesMax]{};
};

}  // namespace pillion::shim
