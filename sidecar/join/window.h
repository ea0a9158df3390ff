// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/flat_map.h"
#include "base/window_data.h"
#include "join/context_stacks.h"
#include "join/execution.h"
#include "join/latency_rows.h"
#include "join/limits.h"
#include "join/sync_cells.h"

namespace pillion::join {

using WindowId = std::uint64_t;

struct WindowFilter {
  std::optional<std::uint32_t> device;  // the process's own device number; launches are not filtered
};

// An execution with everything the join knows about it: its place, its checked values and the instant that
// decides its windows.
struct Settled {
  JoinedSample sample;             // count 1; stack set when attribution is exact
  std::uint64_t context_key = 0;   // attribution context only
  std::uint64_t when_ns = 0;       // end; for an invalid stamp its launch call, or else its arrival
  std::uint64_t end_ns = 0;        // 0: stamps invalid
  std::uint64_t launched_ns = 0;   // 0: launch unknown
  std::uint32_t other_device = 0;  // of a copy between devices; else equal to sample.device
  bool queue_known = false;        // sample.queue_ns is what it says
  std::uint64_t JoinCounters::*stamp_fault = nullptr;
};

// The cells of one open window. Owner: the Joiner's thread.
class Window {
 public:
  Window(WindowId id, WindowFilter filter, std::uint64_t t0_ns, std::uint64_t t1_ns,
         const JoinCounters& at_open)
      : id_(id), filter_(filter), t0_ns_(t0_ns), t1_ns_(t1_ns), at_open_(at_open) {}

  [[nodiscard]] WindowId id() const { return id_; }
  [[nodiscard]] bool covers(std::uint64_t time_ns) const { return t0_ns_ <= time_ns && time_ns < t1_ns_; }
  [[nodiscard]] std::uint64_t t0_ns() const { return t0_ns_; }
  [[nodiscard]] std::uint64_t t1_ns() const { return t1_ns_; }
  void end_at(std::uint64_t t1_ns) {
    if (t1_ns < t1_ns_) t1_ns_ = t1_ns;
  }

  // Adds it if it ended here and passes the filter.
  void add(const Settled& settled, const Limits& limits);
  // Adds the part of a synchronisation call that lies here; end_ns 0: it has not returned.
  void add_sync(const SyncInterval& call, const Limits& limits);

  JoinCounters& counters() { return counters_; }

  // Spreads what was attributed by context key, counts what `now` has beyond what the session had at open,
  // and leaves the window empty.
  [[nodiscard]] WindowData finish(const ContextStacks& stacks, const JoinCounters& now,
                                  std::size_t cells_max);

 private:
  // No padding: hashed as five words.
  struct CellKey {
    std::uint64_t where = 0;  // exact: StackId; context: context key
    std::uint32_t tid = 0, device = 0, context = 0, stream = 0;
    std::uint32_t name = 0;  // kernel: name id; copy: copy kind
    std::uint32_t cbid = 0;
    std::uint8_t kind = 0, graph = 0, attribution = 0, reserved = 0;
    std::uint32_t reserved_word = 0;
    bool operator==(const CellKey&) const = default;
  };
  static_assert(sizeof(CellKey) == 40);
  struct CellHash {
    std::uint64_t operator()(const CellKey& key) const;
  };
  struct Cell {
    std::uint64_t count = 0, gpu_ns = 0, queue_ns = 0, bytes = 0, launch_calls = 0, launch_ns = 0;
  };
  using Cells = FlatMap<CellKey, Cell, CellHash>;

  [[nodiscard]] static CellKey key_of(const JoinedSample& sample, std::uint64_t where);
  [[nodiscard]] static JoinedSample sample_of(const CellKey& key, const Cell& cell);
  // The cell of `key`, or a coarser one when the table is full; second: whether it is the one asked for.
  [[nodiscard]] static std::pair<Cell*, bool> place(Cells& cells, CellKey key, std::size_t cells_max);
  [[nodiscard]] Cells spread(const ContextStacks& stacks, std::size_t cells_max);

  WindowId id_;
  WindowFilter filter_;
  std::uint64_t t0_ns_;
  std::uint64_t t1_ns_;
  std::uint64_t newest_end_ns_ = 0;
  JoinCounters at_open_;
  JoinCounters counters_;
  Cells cells_;
  LatencyRows latencies_;
  SyncCells syncs_;
};

}  // namespace pillion::join
