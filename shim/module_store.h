// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "cupti_types.h"
#include "key_table.h"
#include "module_arena.h"

namespace pillion::shim {

// Hands each module's cubin to the sidecar, once. Modules that load while armed come by MODULE_LOADED; those
// that were there before, and kernels that load lazily, by MODULE_PROFILED, which CUPTI calls at every launch
// while it is switched on: so it is on only until a while has passed without a kernel or module that was not
// seen before.
class ModuleStore {
 public:
  static constexpr std::uint64_t kModuleBytesMax = std::uint64_t{64} << 20;

  struct Sinks {
    pillion_counters* counters;
    cupti::GetContextId context_id;  // may be null
  };

  // Capture thread, before callbacks come. False when the arena's header makes no sense.
  [[nodiscard]] bool begin(pillion_region_header* arena, std::uint64_t bytes, const Sinks& sinks);

  // Capture thread: no thread touches the arena after it. Waits for the one copy that may be going on.
  void end();

  // RESOURCE callbacks, on the calling thread of the program. Copies the bytes here, because their buffer is
  // reused.
  void on_resource(std::uint32_t cbid, const cupti::ResourceData* resource, std::uint32_t tid);

  // Capture thread, between begin() and end(): a module that was kept from before. False when there is no
  // room now; what can never be stored is counted and passed over.
  [[nodiscard]] bool replay(const ModuleArena::Module& module, std::uint32_t tid);

  // Launch path, for the first launch of a context key. True for a function not seen before: it asks for
  // MODULE_PROFILED, for this very launch.
  [[nodiscard]] bool saw_function(std::uint64_t function);

  // Capture thread, each tick: whether MODULE_PROFILED should be on from now.
  [[nodiscard]] bool profiled_wanted();

 private:
  enum class Outcome : std::uint8_t { stored, too_large, full, closed };

  [[nodiscard]] bool try_lock();
  void unlock();
  void store(std::uint32_t origin, const cupti::ResourceData* resource, std::uint32_t tid);
  [[nodiscard]] Outcome store_locked(std::uint32_t origin, const cupti::ResourceData* resource,
                                     const cupti::ModuleResourceData& module);

  std::atomic<std::uint32_t> lock_{0};  // 1: a copy goes on
  std::atomic<bool> open_{false};
  std::atomic<std::uint32_t> news_{0};  // functions and modules seen for the first time
  std::atomic<bool> full_{false};       // no room at the last try; asked again after a tick
  std::uint32_t news_seen_ = 0;         // capture thread
  std::uint32_t quiet_ticks_ = 0;       // capture thread
  Sinks sinks_{};
  ModuleArena arena_;
  KeyTable<16384> functions_;
  KeyTable<16384> modules_;  // mark A: handed over or too large; mark B: counted as dropped
};

}  // namespace pillion::shim
