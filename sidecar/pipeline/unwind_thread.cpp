// SPDX-License-Identifier: Apache-2.0
#include "pipeline/unwind_thread.h"

#include <utility>

namespace pillion::pipeline {
namespace {

// How long one snapshot may wait for maps that know the code it ran.
constexpr std::chrono::milliseconds kMapsPatience{1'000};

}  // namespace

UnwindThread::UnwindThread(TargetCode& code, FileTable& files, Deliver deliver)
    : code_(code),
      deliver_(std::move(deliver)),
      unwinder_(files, code),
      queue_(kQueuedMax, kQueuedBytesMax) {}

void UnwindThread::start() {
  thread_ = std::thread([this] { run(); });
}

void UnwindThread::stop() {
  queue_.abandon();
  if (thread_.joinable()) thread_.join();
}

bool UnwindThread::submit(UnwindJob job) {
  const std::size_t bytes =
      sizeof(UnwindJob) + job.snapshot.stack.size() + job.snapshot.python.size() * sizeof(RawPythonFrame);
  return queue_.try_push(std::move(job), bytes);
}

unwind::UnwindCounters UnwindThread::counters() const {
  const std::lock_guard lock(mutex_);
  return counters_;
}

void UnwindThread::run() {
  while (auto job = queue_.pop()) {
    handle(std::move(*job));
    const auto counters = unwinder_.counters();
    const std::lock_guard lock(mutex_);
    counters_ = counters;
  }
}

void UnwindThread::handle(UnwindJob job) {
  if (job.stacks == nullptr) return unwinder_.forget(job.target);
  const RawSnapshot& snapshot = job.snapshot;
  auto maps = code_.maps(job.target);
  if (maps->serial() == 0) {  // armed a moment ago: the first maps are on their way
    if (auto newer = code_.maps_newer_than(job.target, snapshot.time_ns, kMapsPatience))
      maps = std::move(newer);
  }
  auto outcome = unwinder_.unwind(snapshot, *maps, job.target);
  if (outcome.needs_newer_maps) {
    if (const auto newer = code_.maps_newer_than(job.target, snapshot.time_ns, kMapsPatience)) {
      outcome = unwinder_.unwind(snapshot, *newer, job.target);
    }
  }
  const StackId stack = job.stacks->intern(outcome.stack);
  deliver_({job.target, job.generation, snapshot.correlation, snapshot.context_key, stack,
            outcome.stack.ending, outcome.python});
}

}  // namespace pillion::pipeline
