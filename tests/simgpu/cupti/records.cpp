// SPDX-License-Identifier: Apache-2.0
#include "cupti/records.h"

#include <unistd.h>

#include <atomic>
#include <cstring>

#include "common/knobs.h"
#include "cupti/buffers.h"
#include "cupti/clock.h"
#include "cupti/record_layout.h"
#include "cupti_types.h"

// Offsets are those of cupti_activity.h (CUpti_ActivityKernel10 and so on; older versions are prefixes of
// them).
namespace simgpu {

using namespace pillion::cupti;

namespace {

const std::uint64_t g_drop_every = knob("SIMGPU_DROP_EVERY", 0);
const std::uint64_t g_zero_every = knob("SIMGPU_ZERO_STAMPS_EVERY", 0);
const std::uint64_t g_reverse_every = knob("SIMGPU_REVERSED_STAMPS_EVERY", 0);
std::atomic<std::uint64_t> g_records{0};
std::atomic<bool> g_latency_stamps{false};

bool hit(std::uint64_t every, std::uint64_t number) { return every != 0 && number % every == 0; }

// One record under construction.
struct Record {
  std::uint8_t* at;
  std::size_t size;
  template <class T>
  void put(std::size_t offset, T value) const {
    put_field(at, size, offset, value);
  }
};

void put_stamps(const Record& record, const simgpu_op& op, std::uint64_t number) {
  const std::uint64_t start = client_ns(op.start_ns);
  const std::uint64_t end = start + (op.end_ns - op.start_ns);
  if (hit(g_zero_every, number)) return;
  const bool reversed = hit(g_reverse_every, number);
  record.put(16, reversed ? end : start);
  record.put(24, reversed ? start : end);
}

void put_kernel(const Record& r, const simgpu_op& op, std::uint32_t correlation) {
  r.put(6, static_cast<std::uint16_t>(op.registers));
  r.put(32, get_field<std::uint64_t>(r.at, 24));  // completed
  r.put(40, op.device);
  r.put(44, op.context);
  r.put(48, op.stream);
  for (std::size_t i = 0; i < 3; ++i) {
    r.put(52 + 4 * i, op.grid[i]);
    r.put(64 + 4 * i, op.block[i]);
  }
  r.put(76, op.static_shared);
  r.put(80, op.dynamic_shared);
  r.put(92, correlation);
  r.put(104, op.name);
  if (g_latency_stamps.load(std::memory_order_relaxed)) {
    r.put(120, client_ns(op.queued_ns));
    r.put(128, client_ns(op.queued_ns) + 500);
  }
  r.put(136, static_cast<std::uint8_t>(op.launch_type));
  r.put(144, op.node);
  r.put(156, op.graph);
  r.put(172, std::uint32_t{1});  // CHANNEL_TYPE_COMPUTE
}

void put_copy(const Record& r, const simgpu_op& op, std::uint32_t correlation) {
  r.put(4, static_cast<std::uint8_t>(op.copy_kind));
  r.put(5, static_cast<std::uint8_t>(op.source_kind));
  r.put(6, static_cast<std::uint8_t>(op.destination_kind));
  r.put(8, op.bytes);
  r.put(32, op.device);
  r.put(36, op.context);
  r.put(40, op.stream);
  if (op.kind == SIMGPU_PEER_COPY) {
    r.put(44, op.source_device);
    r.put(48, op.source_context);
    r.put(52, op.destination_device);
    r.put(56, op.destination_context);
    r.put(60, correlation);
    r.put(72, op.node);
    r.put(80, op.graph);
    r.put(88, std::uint32_t{2});  // CHANNEL_TYPE_ASYNC_MEMCPY
    return;
  }
  r.put(44, correlation);
  r.put(64, op.node);
  r.put(72, op.graph);
  r.put(80, std::uint32_t{2});
  r.put(88, std::uint64_t{1});  // copyCount
}

void put_set(const Record& r, const simgpu_op& op, std::uint32_t correlation) {
  r.put(4, op.value);
  r.put(8, op.bytes);
  r.put(32, op.device);
  r.put(36, op.context);
  r.put(40, op.stream);
  r.put(44, correlation);
  r.put(50, static_cast<std::uint16_t>(op.destination_kind));
  r.put(64, op.node);
  r.put(72, op.graph);
  r.put(80, std::uint32_t{1});
}

}  // namespace

void write_op(const simgpu_op& op, std::uint32_t kind, std::uint32_t correlation) {
  const std::uint64_t number = g_records.fetch_add(1, std::memory_order_relaxed) + 1;
  if (hit(g_drop_every, number)) {
    count_dropped();
    return;
  }
  const std::size_t size = record_size(kind);
  const RecordSlot slot(size, op.end_ns);
  if (slot.record() == nullptr) return;
  const Record record{slot.record(), size};
  record.put(0, kind);
  put_stamps(record, op, number);
  if (op.kind == SIMGPU_KERNEL) {
    put_kernel(record, op, correlation);
  } else if (op.kind == SIMGPU_SET) {
    put_set(record, op, correlation);
  } else {
    put_copy(record, op, correlation);
  }
}

void write_synchronization(const simgpu_op& op, std::uint32_t correlation) {
  const std::size_t size = record_size(kActivitySynchronization);
  const RecordSlot slot(size, 0);
  if (slot.record() == nullptr) return;
  const Record r{slot.record(), size};
  const std::uint64_t start = client_ns(op.start_ns);
  r.put(0, std::uint32_t{kActivitySynchronization});
  r.put(4, op.sync_type);
  r.put(8, start);
  r.put(16, start + (op.end_ns - op.start_ns));
  r.put(24, correlation);
  r.put(28, op.context);
  r.put(32, op.stream != 0 ? op.stream : ~std::uint32_t{0});  // SYNCHRONIZATION_INVALID_VALUE
  r.put(36, ~std::uint32_t{0});
}

void write_device(std::uint32_t device) {
  const std::size_t size = record_size(kActivityDevice);
  const RecordSlot slot(size, 0);
  if (slot.record() == nullptr) return;
  const Record r{slot.record(), size};
  r.put(0, std::uint32_t{kActivityDevice});
  r.put(8, std::uint64_t{4'800'000'000});  // memory bandwidth, kB/s
  r.put(16, std::uint64_t{80} << 30);
  r.put(32, std::uint32_t{32});         // threads per warp
  r.put(36, std::uint32_t{1'980'000});  // kHz
  r.put(44, std::uint32_t{132});        // multiprocessors
  r.put(76, std::uint32_t{1024});       // threads per block
  r.put(104, std::uint32_t{9});         // compute capability 9.0
  r.put(112, device);
  char uuid[16];
  std::memcpy(uuid, "SIMULATED-GPU-0", 16);
  uuid[14] = static_cast<char>('0' + device);
  std::memcpy(r.at + 120, uuid, 16);
  r.put(136, "Simulated GPU");
  r.put(144, std::uint8_t{1});  // visible to CUDA
}

void write_context(std::uint32_t context, std::uint32_t device, std::uint32_t null_stream) {
  const std::size_t size = record_size(kActivityContext);
  const RecordSlot slot(size, 0);
  if (slot.record() == nullptr) return;
  const Record r{slot.record(), size};
  r.put(0, std::uint32_t{kActivityContext});
  r.put(4, context);
  r.put(8, device);
  r.put(12, std::uint16_t{1});  // COMPUTE_API_CUDA
  r.put(14, static_cast<std::uint16_t>(null_stream));
  r.put(22, std::uint16_t{132});
}

void write_stream(std::uint32_t context, std::uint32_t stream, int priority, std::uint32_t correlation) {
  const std::size_t size = record_size(kActivityStream);
  const RecordSlot slot(size, 0);
  if (slot.record() == nullptr) return;
  const Record r{slot.record(), size};
  r.put(0, std::uint32_t{kActivityStream});
  r.put(4, context);
  r.put(8, stream);
  r.put(12, priority);
  r.put(16, std::uint32_t{1});  // STREAM_CREATE_FLAG_DEFAULT
  r.put(20, correlation);
}

void write_overhead(std::uint32_t overhead_kind, std::uint64_t start_ns, std::uint64_t end_ns) {
  const std::size_t size = record_size(kActivityOverhead);
  const RecordSlot slot(size, 0);
  if (slot.record() == nullptr) return;
  const Record r{slot.record(), size};
  const std::uint64_t start = client_ns(start_ns);
  r.put(0, std::uint32_t{kActivityOverhead});
  r.put(4, overhead_kind);
  r.put(8, std::uint32_t{1});  // ACTIVITY_OBJECT_PROCESS
  r.put(12, static_cast<std::uint32_t>(getpid()));
  r.put(24, start);
  r.put(32, start + (end_ns - start_ns));
}

void write_foreign_kernel(std::uint8_t* at, std::size_t size) {
  const Record r{at, size};
  r.put(0, std::uint32_t{kActivityConcurrentKernel});
  r.put(16, client_now_ns() - 1000);
  r.put(24, client_now_ns());
  r.put(40, std::uint32_t{99});
  r.put(92, std::uint32_t{0xfffffff0});
  r.put(104, "somebody_elses_kernel");
}

void set_latency_timestamps(bool on) { g_latency_stamps.store(on, std::memory_order_relaxed); }

}  // namespace simgpu
