// SPDX-License-Identifier: Apache-2.0
#include "activity_recorder.h"

#include <cstring>

#include "activity_buffers.h"
#include "name_table.h"
#include "system_calls.h"
#include "thread_state.h"

namespace pillion::shim {
namespace {

constexpr std::uint32_t kDevicesMax = 64;
constexpr std::uint32_t kContextsUnsentMax = 64;
constexpr std::uint64_t kLeaveNs = 20'000'000;
// A null buffer crashes CUPTI before 12.9; from there on the records are dropped and counted by it.
constexpr std::uint32_t kNullBufferSafeVersion = 27;

constinit ActivityBuffers g_buffers{};
constinit NameTable g_names{};
std::atomic<std::uint32_t> g_completions{0};  // and requests, going on now
std::atomic<std::uint32_t> g_signs{0};        // of life of our registration: requests and completions
std::uint32_t g_api_version;

// Devices do not change; a session that CUPTI tells nothing new gets those of the one before.
struct KnownDevice {
  std::atomic<std::uint32_t> state{0};  // enum DeviceState
  pillion_device record{};
};
enum DeviceState : std::uint32_t { kDeviceUnknown, kDeviceFilling, kDeviceUnsent, kDeviceSent };
constinit KnownDevice g_devices[kDevicesMax]{};

// Contexts whose record found no room, to be sent again. A slot holds device + 1 and context; 0: free. One
// that finds no slot is known by what runs in it.
constinit std::atomic<std::uint64_t> g_contexts_unsent[kContextsUnsentMax]{};

// The last resort of old libraries: a few buffers that hold some hundred records each.
constexpr std::size_t kReserveBytes = 64 * 1024;
constexpr std::uint32_t kReserves = 8;
alignas(4096) std::uint8_t g_reserve[kReserves][kReserveBytes];
std::atomic<std::uint32_t> g_reserve_taken{0};  // bit per buffer

std::uint8_t* take_reserve() {
  std::uint32_t seen = g_reserve_taken.load(std::memory_order_relaxed);
  for (;;) {
    const auto index = static_cast<std::uint32_t>(__builtin_ctz(~seen));
    if (index >= kReserves) return nullptr;
    if (g_reserve_taken.compare_exchange_weak(seen, seen | 1u << index, std::memory_order_acquire)) {
      return g_reserve[index];
    }
  }
}

bool give_back_reserve(std::uint8_t* buffer) {
  if (buffer < g_reserve[0] || buffer >= g_reserve[0] + sizeof(g_reserve)) return false;
  std::memset(buffer, 0, kReserveBytes);
  const auto index = static_cast<std::uint32_t>(buffer - g_reserve[0]) / kReserveBytes;
  g_reserve_taken.fetch_and(~(1u << index), std::memory_order_release);
  return true;
}

bool is_reserve(const std::uint8_t* buffer) {
  return buffer >= g_reserve[0] && buffer < g_reserve[0] + sizeof(g_reserve);
}

// Totals of one buffer, added to the counters once.
struct Tally {
  std::uint64_t executions = 0;
  std::uint64_t busy = 0;
  std::uint64_t full = 0;
  std::uint64_t other = 0;
  std::uint64_t unknown = 0;
};

void note_device(CaptureSession& session, std::uint32_t tid, DecodedRecord* decoded) {
  pillion_device& record = decoded->device;
  if (decoded->name != nullptr) {
    std::memcpy(record.name, decoded->name, strnlen(decoded->name, sizeof(record.name) - 1));
  }
  if (record.device >= kDevicesMax) return;
  KnownDevice& known = g_devices[record.device];
  std::uint32_t state = kDeviceUnknown;
  if (known.state.compare_exchange_strong(state, kDeviceFilling, std::memory_order_acquire)) {
    known.record = record;
    known.state.store(kDeviceUnsent, std::memory_order_release);
  }
  if (session.events->push(tid, &record, sizeof(record)) == PushResult::ok) {
    known.state.store(kDeviceSent, std::memory_order_relaxed);
  }
}

PushResult push_context(CaptureSession& session, std::uint32_t tid, std::uint32_t context,
                        std::uint32_t device) {
  const pillion_context record{{PILLION_RECORD_CONTEXT, 0, sizeof(record)}, context, device};
  return session.events->push(tid, &record, sizeof(record));
}

void note_context(CaptureSession& session, std::uint32_t tid, const pillion_context& context) {
  if (context.device >= kDevicesMax) return;
  if (push_context(session, tid, context.context, context.device) == PushResult::ok) return;
  const std::uint64_t slot = std::uint64_t{context.context} << 32 | (context.device + 1);
  for (std::atomic<std::uint64_t>& unsent : g_contexts_unsent) {
    std::uint64_t free = 0;
    if (unsent.compare_exchange_strong(free, slot, std::memory_order_relaxed)) return;
  }
}

void push_record(CaptureSession& session, std::uint32_t tid, const DecodedRecord& decoded, Tally* tally) {
  const bool execution = decoded.header.type != PILLION_RECORD_OVERHEAD;
  if (execution) ++tally->executions;
  const PushResult result = session.events->push(tid, &decoded.header, decoded.header.size);
  if (result == PushResult::ok || result == PushResult::closed) return;
  if (!execution) {
    ++tally->other;
  } else if (result == PushResult::busy) {
    ++tally->busy;
  } else {
    ++tally->full;
  }
}

void deliver(CaptureSession& session, std::uint32_t tid, std::uint8_t* buffer, std::size_t valid,
             Tally* tally) {
  std::uint8_t* record = nullptr;
  while (session.api->next_record(buffer, valid, &record) == cupti::kSuccess && record != nullptr) {
    if (record < buffer || record >= buffer + valid) break;
    if (session.number.load(std::memory_order_relaxed) == 0) break;  // it ends, and waits for us
    DecodedRecord decoded;
    const auto left = static_cast<std::size_t>(buffer + valid - record);
    if (decode_record(session.api->layout, record, left, &decoded) != DecodeResult::decoded) {
      ++tally->unknown;
      continue;
    }
    if (decoded.header.type == PILLION_RECORD_DEVICE) {
      note_device(session, tid, &decoded);
      continue;
    }
    if (decoded.header.type == PILLION_RECORD_CONTEXT) {
      note_context(session, tid, decoded.context);
      continue;
    }
    if (decoded.header.type == PILLION_RECORD_KERNEL && decoded.name != nullptr) {
      decoded.kernel.name = g_names.intern(decoded.name, *session.events, tid);
    }
    push_record(session, tid, decoded, tally);
  }
}

void add_tally(CaptureSession& session, std::uint32_t tid, const Tally& tally) {
  session.executions.fetch_add(tally.executions, std::memory_order_relaxed);
  count(session.counters, tid, &pillion_counters::executions, tally.executions);
  if (tally.busy != 0) count(session.counters, tid, &pillion_counters::executions_dropped_busy, tally.busy);
  if (tally.full != 0) count(session.counters, tid, &pillion_counters::executions_dropped_full, tally.full);
  if (tally.other != 0) count(session.counters, tid, &pillion_counters::other_dropped, tally.other);
  if (tally.unknown != 0) count(session.counters, tid, &pillion_counters::records_unknown, tally.unknown);
}

void complete(CaptureSession& session, void* context, std::uint32_t stream, std::uint8_t* buffer,
              std::size_t valid) {
  const std::uint64_t begun = monotonic_ns();
  const std::uint32_t tid = own_tid();
  Tally tally;
  deliver(session, tid, buffer, valid, &tally);
  add_tally(session, tid, tally);
  std::size_t dropped = 0;
  if (session.api->dropped_records != nullptr &&
      session.api->dropped_records(context, stream, &dropped) == cupti::kSuccess && dropped != 0) {
    count(session.counters, tid, &pillion_counters::cupti_dropped, dropped);
  }
  count(session.counters, tid, &pillion_counters::completion_ns, monotonic_ns() - begun);
}

}  // namespace

void buffer_requested(std::uint8_t** buffer, std::size_t* size, std::size_t* max_records) {
  g_completions.fetch_add(1, std::memory_order_seq_cst);
  g_signs.fetch_add(1, std::memory_order_relaxed);
  *max_records = 0;  // as many as fit
  *buffer = g_buffers.take();
  *size = ActivityBuffers::kBufferBytes;
  if (*buffer == nullptr && g_api_version < kNullBufferSafeVersion) {
    *buffer = take_reserve();
    *size = kReserveBytes;
  }
  if (*buffer == nullptr) *size = 0;
  g_completions.fetch_sub(1, std::memory_order_seq_cst);
}

void buffer_completed(void* context, std::uint32_t stream, std::uint8_t* buffer, std::size_t size,
                      std::size_t valid_size) {
  if (g_inert.load(std::memory_order_relaxed) || buffer == nullptr) return;
  // Sequentially consistent with activity_quiesce(): either it sees this completion, or this one sees no
  // session.
  g_completions.fetch_add(1, std::memory_order_seq_cst);
  CaptureSession* session = g_session.load(std::memory_order_seq_cst);
  const bool reserve = is_reserve(buffer);
  if (!reserve && !g_buffers.owns(buffer)) {
    // Somebody else's, whose registration ours has replaced. It is not ours to read or free.
    if (session != nullptr) count(session->counters, own_tid(), &pillion_counters::foreign_buffers);
  } else {
    g_signs.fetch_add(1, std::memory_order_relaxed);
    const std::size_t valid = valid_size < size ? valid_size : size;
    if (session != nullptr && valid != 0) complete(*session, context, stream, buffer, valid);
    if (reserve) {
      give_back_reserve(buffer);
    } else {
      g_buffers.give_back(buffer, valid);
    }
  }
  g_completions.fetch_sub(1, std::memory_order_seq_cst);
}

std::uint64_t activity_timestamp() { return monotonic_ns(); }

bool activity_begin(std::uint32_t api_version) {
  g_api_version = api_version;
  if (!activity_quiesce(1000) || !g_buffers.begin() || !g_names.begin()) return false;
  for (KnownDevice& known : g_devices) {
    std::uint32_t sent = kDeviceSent;
    known.state.compare_exchange_strong(sent, kDeviceUnsent, std::memory_order_acquire);
  }
  for (std::atomic<std::uint64_t>& unsent : g_contexts_unsent) unsent.store(0, std::memory_order_relaxed);
  return true;
}

void activity_retry(CaptureSession& session, std::uint32_t tid) {
  (void)g_names.retry_unsent(*session.events, tid);
  for (KnownDevice& known : g_devices) {
    if (known.state.load(std::memory_order_acquire) != kDeviceUnsent) continue;
    if (session.events->push(tid, &known.record, sizeof(known.record)) != PushResult::ok) return;
    known.state.store(kDeviceSent, std::memory_order_relaxed);
  }
  for (std::atomic<std::uint64_t>& unsent : g_contexts_unsent) {
    const std::uint64_t slot = unsent.load(std::memory_order_relaxed);
    if (slot == 0) continue;
    const auto device = static_cast<std::uint32_t>(slot) - 1;
    if (push_context(session, tid, static_cast<std::uint32_t>(slot >> 32), device) != PushResult::ok) return;
    unsent.store(0, std::memory_order_relaxed);
  }
}

bool activity_quiesce(std::uint32_t wait_ms) {
  for (std::uint32_t waited = 0; g_completions.load(std::memory_order_seq_cst) != 0; ++waited) {
    if (waited >= wait_ms) return false;
    sleep_ns(1'000'000);
  }
  return true;
}

void activity_end(BufferFate fate) {
  g_buffers.release_memory();
  std::uint8_t* range = fate != BufferFate::foreign ? g_buffers.withdraw() : nullptr;
  // A thread that was about a request when CUPTI was finalised may still be on its way out of it.
  if (fate == BufferFate::forgotten) sleep_ns(kLeaveNs);
  const bool quiet = activity_quiesce(1000);
  if (quiet) g_names.end();
  if (range == nullptr) return;
  if (quiet && (fate == BufferFate::forgotten || g_buffers.out() == 0)) {
    g_buffers.unmap(range);
  } else {
    g_buffers.put_back(range);
  }
}

std::uint32_t activity_signs() { return g_signs.load(std::memory_order_relaxed); }

}  // namespace pillion::shim
