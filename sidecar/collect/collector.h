// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/shared_rings.h"
#include "collect/module_store.h"
#include "collect/record_parser.h"
#include "collect/ring_reader.h"
#include "collect/shim_counters.h"
#include "records.h"

namespace pillion::collect {

struct CollectCounts {
  ParseCounts events;
  ParseCounts stacks;
  std::uint64_t drains = 0;
  std::uint64_t bytes = 0;  // copied out of the rings
  std::uint64_t ring_resets =
      0;                      // a head that cannot be: what the ring held is lost, and how much is not known
  std::uint64_t modules = 0;  // handed over
  std::uint64_t bad_slots = 0;        // of the module arena: outside of it, or of an unknown state
  std::uint64_t records_missing = 0;  // published by the shim, never read: a gap in a ring's record numbers
};

struct DrainOutcome {
  std::uint64_t bytes = 0;
  double fullest = 0;    // share of its length that the fullest ring held
  bool finished = true;  // false: the time was over first, and the next call goes on where this one stopped

  // The next drain should follow at once.
  [[nodiscard]] bool again() const { return !finished || fullest > 0.25; }
};

// Empties what one session shares with its shim. Owned by one thread at a time, usually the draining one;
// never blocks, never waits for a producer, works on when the workload is dead.
class Collector {
 public:
  // The rings as the session made them for this arm(); `modules` outlives the collector.
  Collector(TargetId target, SharedRings rings, ModuleStore& modules);

  static constexpr std::uint64_t kNoDeadline = ~std::uint64_t{0};

  // Delivers every record that was published before the call, then takes over waiting modules. A launch that
  // says it has a snapshot is delivered after that snapshot. Otherwise order holds within a ring only: an
  // execution may be delivered one drain before its launch.
  DrainOutcome drain(RecordSink& sink) {
    (void)look();
    return deliver(sink, kNoDeadline);
  }
  // The two halves of it. look() begins a pass, and returns false while the one before is not finished. What
  // it saw was published, and so had ended on the GPU, when it returns.
  bool look();
  // Goes on with the pass, ring by ring until `deadline_ns`, CLOCK_MONOTONIC; at least one ring.
  DrainOutcome deliver(RecordSink& sink, std::uint64_t deadline_ns);
  [[nodiscard]] bool reading() const { return in_pass_; }

  // After the last drain: gives the rings back, and with them their share of the budget. Counts and counters
  // stay as they are then; a further drain finds nothing.
  void release();

  [[nodiscard]] const CollectCounts& counts() const { return counts_; }
  [[nodiscard]] ShimCounters& shim_counters() { return shim_counters_; }
  [[nodiscard]] std::uint64_t counters_implausible() const { return shim_counters_.implausible(); }

 private:
  struct Ring {
    RingReader reader;
    SequenceCheck sequence;
  };
  static std::vector<Ring> rings_of(const RingsView& view);
  std::uint64_t drain_ring(Ring& ring, RecordSink& sink, ParseCounts& counts);  // bytes
  void drain_modules();
  void take_module(const pillion_module_slot& shared);

  const TargetId target_;
  SharedRings rings_;
  ModuleStore& modules_;
  std::vector<Ring> events_;
  std::vector<Ring> stacks_;
  std::vector<std::byte> buffer_;  // as long as the longest ring that held something
  ShimCounters shim_counters_;
  CollectCounts counts_;
  bool in_pass_ = false;
  std::size_t next_ = 0;  // ring of this pass: the stacks' first
  DrainOutcome outcome_;  // of this pass so far
};

}  // namespace pillion::collect
