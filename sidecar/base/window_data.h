// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/latency_histogram.h"
#include "records.h"

// What the join hands to the profile when a window closes. Plain values, owned by whoever holds them.
namespace pillion {

// How an execution came to stand where it stands.
enum class Attribution : std::uint8_t {
  exact,           // its own launch had a snapshot
  context,         // spread over the stacks seen for its launch's context key
  unsampled,       // launch known, no stack was ever seen for its context key
  before_session,  // no launch record, and none was to be expected
  launch_lost,     // no launch record, though it was launched while armed: dropped in a ring or evicted
  other            // merged: more distinct cells than the window may hold
};

// Executions that look alike, added up. Fields that a kind of attribution does not know are 0.
struct JoinedSample {
  std::uint32_t tid = 0;  // 0: launch unknown
  std::uint32_t device = 0;
  std::uint32_t context = 0;
  std::uint32_t stream = 0;
  std::uint32_t name = 0;       // kernel: id into WindowData::names; 0: none
  std::uint32_t copy_kind = 0;  // copy: CUpti_ActivityMemcpyKind
  std::uint32_t cbid = 0;       // CUpti_driver_api_trace_cbid of the launch; 0: launch unknown
  ExecutionKind kind = ExecutionKind::kernel;
  bool graph = false;
  Attribution attribution = Attribution::unsampled;
  StackId stack = 0;  // exact and context only
  std::uint64_t count = 0;
  std::uint64_t gpu_ns = 0;
  std::uint64_t queue_ns = 0;  // launch call to start
  std::uint64_t bytes = 0;
  // Of launch calls whose duration is known: a call counts once, also where several executions come of it.
  std::uint64_t launch_calls = 0;
  std::uint64_t launch_ns = 0;  // from entry to return
};

// How long one kernel's (copy's, set's) executions on one stream queued, and how long their launch calls
// took.
struct LatencyRow {
  std::uint32_t device = 0;
  std::uint32_t context = 0;
  std::uint32_t stream = 0;
  std::uint32_t name = 0;       // kernel: id into WindowData::names; 0: none
  std::uint32_t copy_kind = 0;  // copy: CUpti_ActivityMemcpyKind
  ExecutionKind kind = ExecutionKind::kernel;
  bool merged = false;     // all that found no row of its own; the fields above mean nothing
  LatencyHistogram queue;  // launch call to start, of each execution whose launch is known
  LatencyHistogram call;   // as JoinedSample::launch_calls
};

// Calls that waited for the GPU and look alike, added up: what of them lies in the window.
struct SyncSample {
  std::uint32_t tid = 0;
  std::uint32_t cbid = 0;                            // CUpti_driver_api_trace_cbid
  std::uint32_t context = 0;                         // CUPTI's id; 0: not known
  Attribution attribution = Attribution::unsampled;  // exact, context, unsampled or other
  StackId stack = 0;
  bool open = false;        // these had not returned when the window ended
  std::uint64_t calls = 0;  // under way in the window
  std::uint64_t ns = 0;
};

// Each field is one quality counter. Fields marked [member] are decided by the window's times and are exact
// in any overlap of windows; the others are what happened to the target between open and close (or since the
// session began, in Joiner::counters()).
struct JoinCounters {
  std::uint64_t launches = 0;           // [member] by launch time; without host functions and duplicates
  std::uint64_t launches_failed = 0;    // [member] by launch time
  std::uint64_t launches_captured = 0;  // [member] by launch time: into graphs, never to run by themselves
  std::uint64_t host_functions = 0;
  std::uint64_t executions = 0;               // [member]; = joined + launched_before + launch_lost
  std::uint64_t joined = 0;                   // [member]
  std::uint64_t launched_before = 0;          // [member]
  std::uint64_t launch_lost = 0;              // [member]
  std::uint64_t invalid_zero = 0;             // [member] start or end is 0
  std::uint64_t invalid_reversed = 0;         // [member] end < start
  std::uint64_t invalid_before_launch = 0;    // [member]
  std::uint64_t invalid_outside_session = 0;  // [member]
  std::uint64_t pending = 0;           // [member] launched in the window, no execution yet when it closed
  std::uint64_t pending_earlier = 0;   // [member] launched before the window, no execution yet when it closed
  std::uint64_t evicted_unjoined = 0;  // launches that left a full table before any execution came
  std::uint64_t launches_duplicate = 0;
  std::uint64_t failed_unmatched = 0;  // failures whose launch record never came
  std::uint64_t decided_early = 0;     // executions given up as launch-less because too many were waiting
  std::uint64_t stacks = 0;            // stacks the unwinder delivered
  std::uint64_t stacks_empty = 0;      // delivered as "no stack": dropped or refused on the way
  std::uint64_t stacks_given_up =
      0;  // launches whose snapshot was published but never became a stack in time
  std::uint64_t stacks_unmatched = 0;               // stacks whose launch record never came, or came and went
  std::array<std::uint64_t, 8> stacks_by_ending{};  // by StackEnding
  std::uint64_t context_keys_refused = 0;           // stacks not remembered for their context key: table full
  std::uint64_t cells_merged = 0;                   // [member] executions merged into [other]
  std::uint64_t names_refused = 0;                  // kernel names past the limits on number or bytes
  std::uint64_t threads_refused = 0;
  std::uint64_t overhead_records = 0;
  std::uint64_t overhead_ns = 0;  // CUPTI's own overhead records, all kinds
  std::uint64_t call_durations_missing =
      0;                                  // launch calls whose duration was not known when they were executed
  std::uint64_t returns_unmatched = 0;    // returns of calls whose record never came
  std::uint64_t latency_rows_merged = 0;  // [member] executions whose latencies stand under [other]
  std::uint64_t syncs = 0;                // [member] synchronisation calls under way in the window
  std::uint64_t syncs_open = 0;           // [member] of those, not returned when it closed
  std::uint64_t sync_cells_merged = 0;    // [member] calls merged into [other]
  std::uint64_t syncs_lost =
      0;  // calls forgotten before they had returned: too many open, or their return lost
};

struct WindowData {
  WindowData() = default;
  WindowData(WindowData&&) = default;
  WindowData& operator=(WindowData&&) = default;
  WindowData(const WindowData&) = delete;
  WindowData& operator=(const WindowData&) = delete;

  TargetId target = 0;
  std::uint64_t t0_ns = 0;
  std::uint64_t t1_ns =
      0;  // the end in force: later than asked if something that ended later was already added
  std::vector<JoinedSample> samples;
  std::vector<LatencyRow> latencies;
  std::vector<SyncSample> syncs;
  std::map<std::uint32_t, std::string>
      names;  // of the kernels in samples and latencies, as the shim sent them
  std::map<std::uint32_t, std::string> threads;  // tid -> comm, of the threads in samples and syncs
  std::map<std::uint32_t, RawDevice> devices;    // by the process's own device number
  JoinCounters counters;
};

}  // namespace pillion
