// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <vector>

#include "base/flat_map.h"
#include "records.h"

namespace pillion {

// Numbers the distinct stacks of one session: the unwinder interns, the join carries ids, the profile reads
// back. Make one per target session and let it go with the last window that carries its ids: nothing is ever
// removed.
//
// Thread-safe by one mutex (some 20,000 interns a second at most, at the sampler's budget). Bounded: past a
// limit intern() returns 0 ("no stack") and counts it; memory is at most about 16 bytes x frames_max + 60
// bytes x stacks_max.
class StackTable {
 public:
  struct Limits {
    std::size_t stacks_max = 65'536;
    std::size_t frames_max = 2'000'000;
  };

  StackTable() = default;
  explicit StackTable(Limits limits) : limits_(limits) {}

  // The id of this stack (frames and ending), 1 and up; 0 when the table is full and the stack is new.
  [[nodiscard]] StackId intern(const UnwoundStack& stack);

  // A copy; an id that was never given out gives a stack without frames and the ending no_mapping.
  [[nodiscard]] UnwoundStack stack(StackId id) const;
  [[nodiscard]] StackEnding ending(StackId id) const;

  [[nodiscard]] std::size_t size() const;
  [[nodiscard]] std::uint64_t refused() const;

 private:
  struct Frame {  // UnwoundFrame without its padding
    std::uint64_t address;
    std::uint32_t file;
    std::uint16_t is_return;
    FrameKind kind;
    bool operator==(const Frame&) const = default;
  };
  [[nodiscard]] static Frame packed(const UnwoundFrame& frame) {
    return {frame.address, frame.file, static_cast<std::uint16_t>(frame.is_return ? 1 : 0), frame.kind};
  }
  struct Entry {
    std::size_t first = 0;
    std::uint32_t frames = 0;
    StackEnding ending = StackEnding::rooted;
    StackId next = 0;  // of the same hash
  };
  [[nodiscard]] bool equal(const Entry& entry, const UnwoundStack& stack) const;

  const Limits limits_{};
  mutable std::mutex mutex_;
  std::vector<Frame> frames_;
  std::vector<Entry> entries_;
  FlatMap<std::uint64_t, StackId> by_hash_;
  std::uint64_t refused_ = 0;
};

}  // namespace pillion
