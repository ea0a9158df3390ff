// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <list>
#include <mutex>

#include "cupti_types.h"

namespace simgpu {

struct Buffer {
  std::uint8_t* data = nullptr;
  std::size_t size = 0;
  std::size_t used = 0;
  std::size_t records = 0;
  std::size_t most_records = 0;   // the client's limit; 0: none
  std::uint64_t complete_ns = 0;  // monotonic: when the last of its records is complete
};

enum class Drain { kComplete, kForced, kLose };

// CUPTI's worker thread: gives retired buffers back to the client once they are complete, sleeping until the
// next is. All its callbacks into the client run on this thread, with all signals blocked and no lock held.
// It starts at the first retired buffer and does not survive fork: in a child drain() hangs, as
// cuptiActivityFlushAll does there.
class Worker {
 public:
  void set_completed(pillion::cupti::BufferCompletedFunc completed) { completed_.store(completed); }
  void retire(const Buffer& buffer);
  // Blocks until the buffers retired so far that are complete (kForced, kLose: all) have been given back.
  void drain(Drain how);

 private:
  struct Retired {
    Buffer buffer;
    Drain how;
    std::uint64_t sequence;  // from 1, in order of retirement
  };
  void start();
  void run();
  // The next to give back, or the instant to look again.
  bool take_ready(Retired* ready, std::uint64_t* next_ns);
  void give_back(const Retired& ready);

  std::atomic<pillion::cupti::BufferCompletedFunc> completed_{nullptr};
  std::mutex mutex_;
  std::condition_variable changed_;
  std::list<Retired> retired_;
  std::uint64_t given_back_ = 0;
  std::uint64_t last_sequence_ = 0;
  std::uint64_t in_flight_ = 0;  // sequence of the one being given back; 0: none
  bool started_ = false;
};

Worker& worker();  // never destroyed

}  // namespace simgpu
