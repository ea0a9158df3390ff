// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "records.h"

namespace pillion::collect {

// A GPU module (cubin) as CUPTI handed it to the shim. Foreign bytes.
struct ModuleBytes {
  std::uint32_t module = 0;   // CUPTI's id, of one session
  std::uint32_t context = 0;  // 0: unknown
  std::uint32_t origin = 0;   // enum pillion_module_origin; UNLOADED comes without bytes
  std::uint64_t crc = 0;      // cuptiGetCubinCrc, 0: not computed
  std::uint64_t time_ns = 0;
  std::vector<std::byte> bytes;
  std::uint64_t fnv1a = 0;  // 64-bit FNV-1a of bytes, by the store: tells people and tests which module it is
};

struct ModuleStoreCounts {
  std::uint64_t modules = 0;  // held now
  std::uint64_t bytes = 0;
  std::uint64_t stored = 0;
  std::uint64_t replaced = 0;  // the same id again
  std::uint64_t evicted = 0;   // for room, the oldest first
  std::uint64_t too_large = 0;
  std::uint64_t unloaded =
      0;  // notes of unloading; the bytes stay: kernels that have run still want their lines
};

// Modules of all sessions, bounded together. Thread-safe: the draining thread adds, a symbolizer looks up.
class ModuleStore {
 public:
  static constexpr std::size_t kModulesMax = 512;
  static constexpr std::uint64_t kBytesMax = 64u << 20;

  explicit ModuleStore(std::size_t modules_max = kModulesMax, std::uint64_t bytes_max = kBytesMax)
      : modules_max_(modules_max), bytes_max_(bytes_max) {}

  void add(TargetId target, ModuleBytes module);
  void note_too_large();
  // Shared: what is found stays valid when the store lets go of it. Null when it is not held.
  [[nodiscard]] std::shared_ptr<const ModuleBytes> find(TargetId target, std::uint32_t module) const;
  [[nodiscard]] std::vector<std::shared_ptr<const ModuleBytes>> of_target(TargetId target) const;
  void forget(TargetId target);
  [[nodiscard]] std::vector<std::pair<TargetId, std::shared_ptr<const ModuleBytes>>> all() const;
  [[nodiscard]] ModuleStoreCounts counts() const;

 private:
  using Key = std::pair<TargetId, std::uint32_t>;
  struct Held {
    std::shared_ptr<const ModuleBytes> module;
    std::list<Key>::iterator age;
  };
  void remove(std::map<Key, Held>::iterator held);

  const std::size_t modules_max_;
  const std::uint64_t bytes_max_;
  mutable std::mutex mutex_;
  std::map<Key, Held> held_;
  std::list<Key> oldest_first_;
  ModuleStoreCounts counts_;
};

}  // namespace pillion::collect
