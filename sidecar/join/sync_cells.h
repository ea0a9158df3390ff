// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/flat_map.h"
#include "base/window_data.h"
#include "join/context_stacks.h"
#include "join/sync_calls.h"

namespace pillion::join {

// The synchronisation time of one window by thread, call and stack. Owner: its Window.
class SyncCells {
 public:
  // `ns` of the call lie in the window; `open`: it has not returned by the window's end, and stands apart
  // from those that have. Past `cells_max` all calls of the same kind become one. Returns false when that was
  // done.
  bool add(const SyncInterval& call, std::uint64_t ns, bool open, std::size_t cells_max);

  // Spreads what has no stack of its own over those of its context key, as GPU time is: the sum stays the
  // same. Leaves it empty.
  [[nodiscard]] std::vector<SyncSample> finish(const ContextStacks& stacks);

 private:
  // No padding: hashed as words.
  struct Key {
    std::uint64_t where = 0;  // exact: StackId; context: context key
    std::uint32_t tid = 0, cbid = 0, context = 0;
    std::uint16_t attribution = 0, open = 0;
    bool operator==(const Key&) const = default;
  };
  static_assert(sizeof(Key) == 24);
  struct Hash {
    std::uint64_t operator()(const Key& key) const {
      std::uint64_t hash = mix64(key.where ^ kHashSeed);
      hash = mix64(hash ^ (std::uint64_t{key.tid} << 32 | key.cbid));
      return mix64(hash ^
                   (std::uint64_t{key.context} << 32 | std::uint64_t{key.open} << 16 | key.attribution));
    }
  };
  struct Cell {
    std::uint64_t calls = 0, ns = 0;
  };
  FlatMap<Key, Cell, Hash> cells_;
};

}  // namespace pillion::join
