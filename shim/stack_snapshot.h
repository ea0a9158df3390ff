// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "python_frames.h"
#include "ring_writer.h"
#include "thread_state.h"

namespace pillion::shim {

struct SnapshotSubject {
  std::uint32_t correlation;
  std::uint64_t time_ns;
  std::uint64_t context_key;
  std::uint32_t session;          // publish only while this is still the session, see still_current
  std::uint32_t stack_bytes_max;  // cap of the copy, a multiple of 16
  const std::atomic<std::uint32_t>* current_session;
  const PythonStack* python = nullptr;  // goes behind the stack; null: none
};

struct SnapshotResult {
  PushResult push;
  std::uint32_t flags;  // enum pillion_snapshot_flags
  std::uint64_t bytes;  // of the record
};

// Copies the calling thread's registers and its stack, from the stack pointer upwards, straight into a ring.
// On the thread's own stack with stores past the caches, elsewhere with process_vm_readv on ourselves, which
// stops where a load would fault. At most one system call, keeps errno, allocates and waits for nothing. The
// top frame is this function's.
[[gnu::noinline]] SnapshotResult take_snapshot(RingSet& stacks, ThreadState& thread,
                                               const SnapshotSubject& subject);

// For tests: the fault-safe copy alone, of up to `wanted` bytes from `from` into the reservation at `offset`;
// `tid` is the caller's. Returns the bytes that could be read, a multiple of 8.
[[nodiscard]] std::uint64_t copy_fault_safe(std::uint32_t tid, const Reservation& room, std::uint64_t offset,
                                            std::uint64_t from, std::uint64_t wanted);

}  // namespace pillion::shim
