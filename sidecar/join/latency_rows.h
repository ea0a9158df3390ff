// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/flat_map.h"
#include "base/window_data.h"

namespace pillion::join {

// The latencies of one window by kernel (copy, set) and stream. Owner: its Window.
class LatencyRows {
 public:
  // One execution, whose launch is known; `queue_known`: its queue time is good, too. Past `rows_max` rows
  // all others become one. Returns false when that was done.
  bool add(const JoinedSample& sample, bool queue_known, std::size_t rows_max);

  // By device, context, stream and what ran. Leaves it empty.
  [[nodiscard]] std::vector<LatencyRow> finish();

 private:
  struct Key {
    std::uint32_t device = 0, context = 0, stream = 0, name = 0, copy_kind = 0, kind = 0;
    bool operator==(const Key&) const = default;
  };
  static constexpr std::uint32_t kMerged = 0xff;  // a kind that nothing has
  struct Hash {
    std::uint64_t operator()(const Key& key) const {
      std::uint64_t hash = mix64((std::uint64_t{key.device} << 32 | key.context) ^ kHashSeed);
      hash = mix64(hash ^ (std::uint64_t{key.stream} << 32 | key.name));
      return mix64(hash ^ (std::uint64_t{key.copy_kind} << 32 | key.kind));
    }
  };
  FlatMap<Key, std::size_t, Hash> index_;
  std::vector<LatencyRow> rows_;
};

}  // namespace pillion::join
