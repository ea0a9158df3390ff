// SPDX-License-Identifier: Apache-2.0
#include "sync_recorder.h"

#include "python_frames.h"
#include "recording_steps.h"
#include "stamp_clock.h"

namespace pillion::shim {
namespace {

void drop_sync(CaptureSession& session, std::uint32_t tid, PushResult result) {
  if (result == PushResult::closed) return;
  count(session.counters, tid, &pillion_counters::syncs);
  count(session.counters, tid, &pillion_counters::syncs_dropped);
}

// True when a snapshot of this call was published.
bool sample_sync(CaptureSession& session, std::uint32_t number, ThreadState& thread,
                 const pillion_sync& sync) {
  if (!session.stacks_wanted) return false;
  std::uint32_t until = thread.until_sync_sample;
  const SampleDecision decision = g_sync_sampler.decide(thread, until, sync.context_key);
  // What does not fit comes a little early; the budget holds all the same.
  thread.until_sync_sample = static_cast<std::uint16_t>(until < 0xffff ? until : 0xffff);
  if (decision.key_refused) count(session.counters, thread.tid, &pillion_counters::sampler_refused_keys);
  if (decision.reason == SampleReason::refused_first) {
    count(session.counters, thread.tid, &pillion_counters::sampler_refused_budget);
  }
  if (decision.reason != SampleReason::first && decision.reason != SampleReason::random) return false;
  const SnapshotCost cost =
      snapshot_call(session, thread, {sync.correlation, sync.time_ns, sync.context_key}, number);
  if (cost.bytes != 0) g_sync_sampler.sampled(decision, cost.ns, cost.bytes);
  return cost.bytes != 0;
}

}  // namespace

void on_sync_enter(CaptureSession& session, std::uint32_t cbid, const cupti::CallbackData& data,
                   std::uint64_t sp) {
  ThreadState& thread = t_thread;
  if (thread.inside != 0) {  // a signal handler's, on top of one of ours
    drop_sync(session, thread.tid, PushResult::busy);
    return;
  }
  const InsideGuard guard(thread);
  const std::uint32_t number = session.number.load(std::memory_order_relaxed);
  if (number == 0) return;  // it has just ended
  pillion_sync sync{};
  sync.header = {PILLION_RECORD_SYNC, 0, sizeof(sync)};
  sync.time_ns = stamp_ns();
  if (thread.session != number) [[unlikely]]
    announce_thread(session, number, thread, sp);
  sync.correlation = data.correlation_id;
  sync.tid = thread.tid;
  sync.context_key = context_key(thread.tid, sp, cbid ^ python_place());
  sync.cbid = cbid;
  sync.context = data.context_uid;
  note_active(session, thread);
  const bool sampled = sample_sync(session, number, thread, sync);
  if (sampled) sync.flags = PILLION_LAUNCH_SNAPSHOT;
  const bool returns = data.correlation_data != nullptr;
  if (returns) sync.flags |= PILLION_LAUNCH_RETURNS;
  const PushResult result = push_record(session, number, thread.tid, sync, false);
  if (result != PushResult::ok) {
    drop_sync(session, thread.tid, result);
  } else {
    count(session.counters, thread.tid, &pillion_counters::syncs);
  }
  const Timed timed = account_handler(session, thread, sync.time_ns, sampled);
  if (returns && result == PushResult::ok)
    *data.correlation_data = ReturnMark(number, sync.correlation).with(timed);
}

void on_call_return(CaptureSession& session, const cupti::CallbackData& data, std::uint32_t flags) {
  const std::uint32_t number = session.number.load(std::memory_order_relaxed);
  if (data.correlation_data == nullptr || number == 0) return;
  const std::uint64_t kept = *data.correlation_data;
  if (!ReturnMark(number, data.correlation_id).is_in(kept)) return;
  *data.correlation_data = 0;
  ThreadState& thread = t_thread;
  const pillion_returned record{
      {PILLION_RECORD_RETURNED, 0, sizeof(record)}, data.correlation_id, flags, stamp_ns()};
  const PushResult result = push_record(session, number, thread.tid, record, false);
  if (result != PushResult::ok && result != PushResult::closed) [[unlikely]] {
    count(session.counters, thread.tid, &pillion_counters::returns_dropped);
  }
  account_exit(session, thread, record.time_ns, ReturnMark::timed(kept));
}

}  // namespace pillion::shim
