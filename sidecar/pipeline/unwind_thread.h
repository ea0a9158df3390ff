// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>

#include "base/bounded_queue.h"
#include "base/file_table.h"
#include "base/stack_table.h"
#include "pipeline/target_code.h"
#include "records.h"
#include "unwind/unwinder.h"

namespace pillion::pipeline {

// A snapshot on its way to the unwinder.
struct UnwindJob {
  TargetId target = 0;
  std::uint64_t generation = 0;  // of the arming that it belongs to
  RawSnapshot snapshot;
  std::shared_ptr<StackTable> stacks;  // where the stack gets its number; null: forget the target instead
};

struct UnwoundSnapshot {
  TargetId target = 0;
  std::uint64_t generation = 0;
  std::uint32_t correlation = 0;
  std::uint64_t context_key = 0;
  StackId stack = 0;
  StackEnding ending = StackEnding::rooted;
  unwind::PythonSplice python{};
};

// The thread that turns snapshots into stacks. It may be held up by files that a shim opens for it and by
// first look-ups; the queue in front of it is bounded, so that holds up nobody else.
class UnwindThread {
 public:
  static constexpr std::size_t kQueuedMax = 4'096;
  static constexpr std::size_t kQueuedBytesMax = 32u << 20;
  using Deliver = std::function<void(UnwoundSnapshot)>;  // called on the unwind thread

  // `code` and `files` outlive it.
  UnwindThread(TargetCode& code, FileTable& files, Deliver deliver);
  ~UnwindThread() { stop(); }

  void start();
  void stop();  // drops what is queued

  // False when the queue is full: the snapshot is lost. Any thread.
  [[nodiscard]] bool submit(UnwindJob job);
  // Forgets what belongs to a target that is gone. Any thread.
  void forget(TargetId target) { (void)submit({target, 0, {}, nullptr}); }
  [[nodiscard]] std::size_t queued() const { return queue_.size(); }
  [[nodiscard]] unwind::UnwindCounters counters() const;  // any thread

 private:
  void run();
  void handle(UnwindJob job);

  TargetCode& code_;
  const Deliver deliver_;
  unwind::Unwinder unwinder_;  // on thread_ only
  BoundedQueue<UnwindJob> queue_;
  mutable std::mutex mutex_;
  unwind::UnwindCounters counters_;  // under mutex_
  std::thread thread_;               // last: it uses everything above
};

}  // namespace pillion::pipeline
