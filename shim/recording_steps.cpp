// SPDX-License-Identifier: Apache-2.0
#include "recording_steps.h"

#include <sys/prctl.h>

#include "python_frames.h"
#include "stack_snapshot.h"
#include "system_calls.h"

namespace pillion::shim {
namespace {

// One handler in so many is timed, and stands for all of them.
constexpr std::uint32_t kTimedEvery = 64;
// What a preempted handler took is not ours; it would count 64 times.
constexpr std::uint64_t kTimedMaxNs = 20'000;

void count_python(CaptureSession& session, std::uint32_t tid, const PythonStack& stack, std::uint64_t ns) {
  count(session.counters, tid, &pillion_counters::python_ns, ns);
  if (stack.flags == 0) return;
  count(session.counters, tid, &pillion_counters::python_snapshots);
  if ((stack.flags & PILLION_SNAPSHOT_PYTHON_PARTIAL) != 0) {
    count(session.counters, tid, &pillion_counters::python_partial);
  }
}

void count_for_many(CaptureSession& session, std::uint32_t tid, std::uint64_t begun) {
  const std::uint64_t took = monotonic_ns() - begun;
  if (took < kTimedMaxNs) count(session.counters, tid, &pillion_counters::handler_ns, took * kTimedEvery);
}

}  // namespace

[[gnu::noinline, gnu::cold]] void announce_thread(CaptureSession& session, std::uint32_t number,
                                                  ThreadState& thread, std::uint64_t sp) {
  begin_thread(thread, sp);
  pillion_thread record{};
  record.header = {PILLION_RECORD_THREAD, 0, sizeof(record)};
  record.tid = thread.tid;
  record.stack_low = thread.stack_low;
  record.stack_high = thread.stack_high;
  ::prctl(PR_GET_NAME, record.comm);
  const PushResult result = push_record(session, number, thread.tid, record, false);
  if (result == PushResult::ok) {
    thread.session = number;  // else the next call tries again
  } else {
    count_drop(session, thread.tid, result,
               {&pillion_counters::other_dropped, &pillion_counters::other_dropped});
  }
}

[[gnu::noinline]] SnapshotCost snapshot_call(CaptureSession& session, ThreadState& thread,
                                             const RecordedCall& call, std::uint32_t number) {
  const std::uint64_t begun = monotonic_ns();
  PythonStack python;
  walk_python(session, number, thread.tid, &python);
  if (python_in_force()) count_python(session, thread.tid, python, monotonic_ns() - begun);
  const SnapshotResult result = take_snapshot(*session.stacks, thread,
                                              {call.correlation, call.time_ns, call.context_key, number,
                                               session.stack_bytes_max, &session.number, &python});
  const std::uint64_t took = monotonic_ns() - begun;
  count_drop(session, thread.tid, result.push,
             {&pillion_counters::snapshots_dropped_busy, &pillion_counters::snapshots_dropped_full});
  if (result.push != PushResult::ok) return {took, 0};
  count(session.counters, thread.tid, &pillion_counters::snapshots);
  count(session.counters, thread.tid, &pillion_counters::snapshot_ns, took);
  if ((result.flags & PILLION_SNAPSHOT_TRUNCATED) != 0) {
    count(session.counters, thread.tid, &pillion_counters::snapshots_truncated);
  }
  if ((result.flags & PILLION_SNAPSHOT_FOREIGN) != 0) {
    count(session.counters, thread.tid, &pillion_counters::snapshots_foreign);
  }
  if ((result.flags & PILLION_SNAPSHOT_FAULTED) != 0) {
    count(session.counters, thread.tid, &pillion_counters::snapshots_faulted);
  }
  return {took, result.bytes};
}

Timed account_handler(CaptureSession& session, ThreadState& thread, std::uint64_t begun, bool sampled) {
  if (sampled) {
    count(session.counters, thread.tid, &pillion_counters::handler_ns, monotonic_ns() - begun);
    count(session.counters, thread.tid, &pillion_counters::handler_calls);
    return Timed::once;
  }
  if ((++thread.calls & (kTimedEvery - 1)) != 0) return Timed::no;
  count_for_many(session, thread.tid, begun);
  count(session.counters, thread.tid, &pillion_counters::handler_calls, kTimedEvery);
  return Timed::many;
}

void account_exit(CaptureSession& session, const ThreadState& thread, std::uint64_t begun, Timed timed) {
  if (timed == Timed::many) count_for_many(session, thread.tid, begun);
  if (timed == Timed::once)
    count(session.counters, thread.tid, &pillion_counters::handler_ns, monotonic_ns() - begun);
}

}  // namespace pillion::shim
