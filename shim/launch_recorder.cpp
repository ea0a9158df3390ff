// SPDX-License-Identifier: Apache-2.0
#include "launch_recorder.h"

#include <array>

#include "arming.h"
#include "capture_session.h"
#include "detach.h"
#include "driver_cbids.h"
#include "eager.h"
#include "graph_threads.h"
#include "python_frames.h"
#include "recording_steps.h"
#include "stamp_clock.h"
#include "sync_recorder.h"
#include "thread_state.h"

namespace pillion::shim {
namespace {

std::atomic<bool> g_lost{false};

constexpr std::uint8_t kContextEnd = 0xff;
constexpr std::uint8_t kSync = 0xfe;

struct CbidEntry {
  std::uint8_t kind;  // enum pillion_launch_kind, kContextEnd or kSync; 0: not ours
  std::uint8_t handle_offset;
};

constexpr std::array<CbidEntry, kDriverCbidLimit> make_cbid_table() {
  std::array<CbidEntry, kDriverCbidLimit> table{};
  for (const DriverCbid& entry : kDriverCbids) table[entry.cbid] = {entry.kind, entry.handle_offset};
  for (const std::uint16_t cbid : kContextEndCbids) table[cbid] = {kContextEnd, kNoHandle};
  for (const SyncCbid& entry : kSyncCbids) table[entry.cbid] = {kSync, kNoHandle};
  return table;
}

constexpr auto kCbidTable = make_cbid_table();

// CUPTI hands over a launch's module between our ENTER and EXIT when MODULE_PROFILED is on by then: so a
// module that is launched from once only is not missed while it is off. One CUPTI call, at a function's first
// launch.
void note_function(CaptureSession& session, const pillion_launch& launch) {
  if (launch.kind != PILLION_LAUNCH_KERNEL || !g_modules.saw_function(launch.function)) return;
  if ((session.kinds & PILLION_KIND_MODULES) == 0) return;
  if (!session.profiled_on.exchange(true, std::memory_order_relaxed))
    enable_module_profiled(*session.api, session.subscriber, true);
}

// What a new or refused key asks for besides its launch record.
[[gnu::noinline, gnu::cold]] void note_key(CaptureSession& session, const ThreadState& thread,
                                           const pillion_launch& launch, const SampleDecision& decision) {
  if (decision.key_refused) count(session.counters, thread.tid, &pillion_counters::sampler_refused_keys);
  if (decision.reason == SampleReason::refused_first) {
    count(session.counters, thread.tid, &pillion_counters::sampler_refused_budget);
  }
  // A function that was not seen before comes with a key that was not.
  note_function(session, launch);
}

// True when a snapshot of this launch was published.
bool sample(CaptureSession& session, std::uint32_t number, ThreadState& thread,
            const pillion_launch& launch) {
  if (!session.stacks_wanted) {
    note_function(session, launch);
    return false;
  }
  const SampleDecision decision = g_sampler.decide(thread, thread.until_sample, launch.context_key);
  if (decision.key_new || decision.key_refused || decision.reason == SampleReason::refused_first)
      [[unlikely]] {
    note_key(session, thread, launch, decision);
  }
  if (decision.reason != SampleReason::first && decision.reason != SampleReason::random) [[likely]]
    return false;
  const SnapshotCost cost =
      snapshot_call(session, thread, {launch.correlation, launch.time_ns, launch.context_key}, number);
  if (cost.bytes != 0) g_sampler.sampled(decision, cost.ns, cost.bytes);
  return cost.bytes != 0;
}

// Whether the call's RETURNED is wanted: a copy that waits for its execution is a synchronisation, too.
bool wants_return(const CaptureSession& session, std::uint8_t kind) {
  if (kind == PILLION_LAUNCH_HOST) return false;
  return session.calls_wanted || (session.syncs_wanted && kind == PILLION_LAUNCH_COPY);
}

// Launches that were recorded are counted in their ring, see add_recorded_launches(); these here.
[[gnu::noinline, gnu::cold]] void drop_launch(CaptureSession& session, std::uint32_t tid, PushResult result) {
  if (result == PushResult::closed) return;
  count(session.counters, tid, &pillion_counters::launches);
  count_drop(session, tid, result,
             {&pillion_counters::launches_dropped_busy, &pillion_counters::launches_dropped_full});
}

void on_enter(CaptureSession& session, std::uint32_t cbid, const cupti::CallbackData& data,
              std::uint64_t sp) {
  ThreadState& thread = t_thread;
  const CbidEntry entry = kCbidTable[cbid];
  if (thread.inside != 0) {
    drop_launch(session, thread.tid, PushResult::busy);
    return;
  }
  const InsideGuard guard(thread);
  thread.captured = 0;
  const std::uint32_t number = session.number.load(std::memory_order_relaxed);
  if (number == 0) return;  // it has just ended
  pillion_launch launch;
  launch.header = {PILLION_RECORD_LAUNCH, 0, sizeof(launch)};
  launch.time_ns = stamp_ns();
  if (thread.session != number) [[unlikely]]
    announce_thread(session, number, thread, sp);
  launch.correlation = data.correlation_id;
  launch.tid = thread.tid;
  launch.function = 0;
  if (entry.handle_offset != kNoHandle && data.function_params != nullptr) {
    __builtin_memcpy(&launch.function,
                     static_cast<const std::uint8_t*>(data.function_params) + entry.handle_offset,
                     sizeof(launch.function));
  }
  launch.context_key =
      context_key(thread.tid, sp, (launch.function != 0 ? launch.function : cbid) ^ python_place());
  launch.cbid = cbid;
  launch.kind = entry.kind;
  launch.flags = 0;
  note_active(session, thread);
  if (entry.kind == PILLION_LAUNCH_GRAPH) note_graph_launch(thread, number, launch.time_ns);
  // A host function has no time on the GPU that a stack could be shown for.
  const bool sampled = entry.kind != PILLION_LAUNCH_HOST && sample(session, number, thread, launch);
  if (sampled) launch.flags = PILLION_LAUNCH_SNAPSHOT;
  const bool returns = data.correlation_data != nullptr && wants_return(session, entry.kind);
  if (returns) launch.flags |= PILLION_LAUNCH_RETURNS;
  const PushResult result = push_record(session, number, thread.tid, launch, true);
  if (result != PushResult::ok) [[unlikely]] {
    drop_launch(session, thread.tid, result);
  }
  const Timed timed = account_handler(session, thread, launch.time_ns, sampled);
  if (returns && result == PushResult::ok)
    *data.correlation_data = ReturnMark(number, launch.correlation).with(timed);
}

// A call that failed, or was captured into a graph (result 0), put nothing on the GPU: without this its
// launch would wait for an execution for ever.
[[gnu::noinline, gnu::cold]] void on_no_execution(CaptureSession& session, const cupti::CallbackData& data,
                                                  std::uint32_t result) {
  ThreadState& thread = t_thread;
  if (thread.inside != 0) return;
  const InsideGuard guard(thread);
  const std::uint32_t tid = own_tid();
  const pillion_launch_failed record{
      {PILLION_RECORD_LAUNCH_FAILED, 0, sizeof(record)}, data.correlation_id, result};
  count(session.counters, tid,
        result != 0 ? &pillion_counters::launches_failed : &pillion_counters::launches_captured);
  const PushResult pushed =
      push_record(session, session.number.load(std::memory_order_relaxed), tid, record, false);
  count_drop(session, tid, pushed, {&pillion_counters::other_dropped, &pillion_counters::other_dropped});
}

void on_driver_call(std::uint32_t cbid, const cupti::CallbackData& data, std::uint64_t sp) {
  if (cbid >= kDriverCbidLimit) return;
  const std::uint8_t kind = kCbidTable[cbid].kind;
  // Pairs with the release store that begins a session: its fields are there.
  CaptureSession* session = g_session.load(std::memory_order_acquire);
  if (kind == kContextEnd || kind == 0) {
    // CUPTI allows a flush in driver callbacks, and the program is about to wait for its GPU anyway.
    if (kind == kContextEnd && session != nullptr && data.callback_site == cupti::kApiEnter &&
        g_flush_policy.allowed()) {
      (void)session->api->flush_all(cupti::kFlushForced);
    }
    return;
  }
  if (kind == kSync) {
    if (session == nullptr) return;
    if (data.callback_site == cupti::kApiEnter) {
      on_sync_enter(*session, cbid, data, sp);
    } else {
      on_call_return(*session, data, PILLION_RETURNED_SYNC);
    }
    return;
  }
  if (data.callback_site == cupti::kApiEnter) {
    if (session != nullptr) on_enter(*session, cbid, data, sp);
    return;
  }
  if (session != nullptr && data.function_return_value != nullptr) {
    std::uint32_t result = 0;
    __builtin_memcpy(&result, data.function_return_value, sizeof(result));
    if (result != 0 || t_thread.captured != 0) [[unlikely]] {
      on_no_execution(*session, data, result);
    } else {
      on_call_return(*session, data, 0);
    }
  }
  if (detach_pending()) [[unlikely]]
    detach_at_api_exit();
}

void keep_module(std::uint32_t cbid, const cupti::ResourceData* resource) {
  const CuptiApi* api = cupti_loaded();
  if (api != nullptr) g_keeper.on_resource(cbid, resource, api->context_id, own_tid());
}

}  // namespace

// The frame address is the same for the same call path, and differs between paths: it goes into the context
// key.
void subscriber_callback(void*, cupti::CallbackDomain domain, std::uint32_t cbid, const void* data) {
  if (data == nullptr || g_inert.load(std::memory_order_relaxed)) return;
  switch (domain) {
    case cupti::kDomainDriverApi:
      on_driver_call(cbid, *static_cast<const cupti::CallbackData*>(data),
                     reinterpret_cast<std::uint64_t>(__builtin_frame_address(0)));
      break;
    case cupti::kDomainResource:
      // Inside the launch that is being captured, on its thread; at an instantiation, too, where no launch
      // goes on.
      if (cbid == cupti::kResourceGraphNodeCreated) {
        t_thread.captured = 1;
        break;
      }
      if (is_eager()) keep_module(cbid, static_cast<const cupti::ResourceData*>(data));
      if (g_session.load(std::memory_order_acquire) != nullptr) {
        g_modules.on_resource(cbid, static_cast<const cupti::ResourceData*>(data), own_tid());
      }
      break;
    case cupti::kDomainState:
      if (cbid == cupti::kStateFatalError) g_lost.store(true, std::memory_order_relaxed);
      break;
    default:
      break;
  }
}

void add_recorded_launches(CaptureSession& session) {
  const std::uint64_t recorded = session.events->tally();
  count(session.counters, own_tid(), &pillion_counters::launches, recorded - session.launches_added);
  session.launches_added = recorded;
}

bool cupti_is_lost() { return g_lost.load(std::memory_order_relaxed); }

void forget_cupti_loss() { g_lost.store(false, std::memory_order_relaxed); }

}  // namespace pillion::shim
