// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "base/file_table.h"
#include "records.h"
#include "unwind/address_space.h"
#include "unwind/code_files.h"
#include "unwind/file_source.h"
#include "unwind/interpreter_files.h"
#include "unwind/maps_table.h"
#include "unwind/python_splice.h"
#include "unwind/row_cache.h"

namespace pillion::unwind {

struct UnwindOutcome {
  UnwoundStack stack;
  PythonSplice python;
  // A code address was in no executable mapping: the maps may be older than a dlopen. Get newer ones and try
  // once more.
  bool needs_newer_maps = false;
};

struct UnwindCounters {
  std::array<std::uint64_t, 8> endings{};  // by StackEnding
  std::uint64_t frames = 0;
  std::uint64_t rows_computed = 0;        // looked up in call frame information
  std::uint64_t rows_evicted = 0;         // pushed out of the full cache
  std::uint64_t frame_pointer = 0;        // frames found by the frame pointer alone
  std::uint64_t full_restarts = 0;        // stacks that needed all registers
  std::uint64_t frames_without_file = 0;  // anonymous code, or the file table was full
  CodeFileCounters files;
};

// Turns copied stacks into frames by call frame information, after the fact. One owner thread, which may be
// blocked by the file source and by first lookups that take milliseconds: never the thread that drains the
// rings.
class Unwinder {
 public:
  static constexpr std::size_t kFramesMax = 4096;  // deeper counts as a loop
  static constexpr unsigned kSignalFramesMax = 16;
  static constexpr std::size_t kTargetsMax = 256;      // address spaces kept; the one used longest ago leaves
  static constexpr std::size_t kSlowRulesMax = 65536;  // then the row cache starts afresh

  // Both outlive the unwinder. `rows` bounds the row cache.
  Unwinder(FileTable& files, FileSource& source, std::size_t rows = RowCache::kRowsMax)
      : files_(files, source), interpreters_(files), rows_(rows) {}

  // `snapshot` and `maps` are foreign: any content gives a stack, never a fault. Frames of the shim itself,
  // at the leaf, are part of it. The snapshot's Python frames take the place of the interpreter's.
  [[nodiscard]] UnwindOutcome unwind(const RawSnapshot& snapshot, const MapsTable& maps, TargetId target);
  // Forgets what belongs to a target that is gone; its files stay.
  void forget(TargetId target);
  [[nodiscard]] UnwindCounters counters() const;

 private:
  struct Walk;
  enum class Step : std::uint8_t { next, end, restart };
  struct TargetSpace {
    AddressSpace space;
    std::uint64_t used = 0;
  };

  AddressSpace& space_of(TargetId target);
  void splice(const RawSnapshot& snapshot, const Walk& walk, UnwindOutcome& outcome);
  Step walk(Walk& walk);
  Step step(Walk& walk, const Region& region, std::uint64_t lookup);
  Step step_by_row(Walk& walk, const Row& row);
  static void restore_rbp(Walk& walk, const Row& row, std::uint64_t cfa);
  Step step_by_rules_of(Walk& walk, const Region& region, std::uint64_t address, const Row& row);
  Step step_by_frame_pointer(Walk& walk, bool planted);
  Row row_of(const Region& region, std::uint64_t address);

  CodeFiles files_;
  InterpreterFiles interpreters_;
  RowCache rows_;
  std::vector<FrameRules> slow_rules_;
  std::map<TargetId, TargetSpace> targets_;
  std::uint64_t uses_ = 0;
  UnwindCounters counters_;
};

}  // namespace pillion::unwind
