// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include "cupti_types.h"

// Activity buffers: one per thread that makes records, asked for on that thread, given back by one worker
// thread. A full buffer goes back as soon as all its records are complete; one that is not full goes back at
// a flush.
namespace simgpu {

bool register_buffer_callbacks(pillion::cupti::BufferRequestedFunc requested,
                               pillion::cupti::BufferCompletedFunc completed);

// A place for one record in the calling thread's buffer. Its lock is held until the object goes: fill the
// record at once. record() is null when no buffer was to be had: then the record counts as dropped.
class RecordSlot {
 public:
  RecordSlot(std::size_t bytes,
             std::uint64_t complete_ns);  // complete_ns: monotonic, when the record is complete
  ~RecordSlot();
  RecordSlot(const RecordSlot&) = delete;
  RecordSlot& operator=(const RecordSlot&) = delete;
  [[nodiscard]] std::uint8_t* record() const { return record_; }

 private:
  void* thread_;
  std::uint8_t* record_;
};

// Blocks until the worker has given back what is complete (or, forced, everything; stamps of what is not are
// 0).
pillion::cupti::Result flush_buffers(bool forced);
// For cuptiFinalize: full buffers go back, those that threads are filling are forgotten with their records,
// and so are the callbacks. With `lose` the full ones come back empty.
void finalize_buffers(bool lose);
std::uint64_t take_dropped();  // resets
void count_dropped();
void set_zeroed_by_client(bool zeroed);  // CUPTI_ACTIVITY_ATTR_ZEROED_OUT_ACTIVITY_BUFFER

}  // namespace simgpu
