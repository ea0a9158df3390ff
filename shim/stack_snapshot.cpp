// SPDX-License-Identifier: Apache-2.0
#include "stack_snapshot.h"

#include <sys/uio.h>

#include <cerrno>

#include "arch.h"
#include "maps_watch.h"
#include "system_calls.h"

namespace pillion::shim {
namespace {

constexpr std::uint64_t kPage = 4096;
constexpr std::uint64_t kForeignMax = 192 * 1024;
constexpr std::uint64_t kForeignPieces = kForeignMax / kPage + 1;  // the first one is short
constexpr std::uint64_t kHeader = sizeof(pillion_snapshot);
static_assert(kHeader % 8 == 0);

void copy_own(const Reservation& room, std::uint64_t from, std::uint64_t bytes) {
  std::uint64_t done = 0;
  while (done < bytes) {
    const RingSpan piece = room.span(kHeader + done);
    const std::uint64_t now = bytes - done < piece.bytes ? bytes - done : piece.bytes;
    if (now == 0) break;
    arch::copy_past_caches(piece.data, reinterpret_cast<const std::uint8_t*>(from + done), now);
    done += now;
  }
  arch::store_fence();
}

}  // namespace

std::uint64_t copy_fault_safe(std::uint32_t tid, const Reservation& room, std::uint64_t offset,
                              std::uint64_t from, std::uint64_t wanted) {
  if (wanted > kForeignMax) wanted = kForeignMax;
  // One remote piece per page: what cannot be read ends the transfer between two pieces
  // (process_vm_readv(2)).
  iovec remote[kForeignPieces];
  std::uint64_t pieces = 0;
  for (std::uint64_t at = 0; at < wanted; ++pieces) {
    const std::uint64_t to_page_end = kPage - ((from + at) & (kPage - 1));
    const std::uint64_t now = wanted - at < to_page_end ? wanted - at : to_page_end;
    remote[pieces] = {reinterpret_cast<void*>(from + at), now};
    at += now;
  }
  iovec local[2];
  int local_count = 0;
  for (std::uint64_t at = 0; at < wanted && local_count < 2; ++local_count) {
    const RingSpan piece = room.span(offset + at);
    const std::uint64_t now = wanted - at < piece.bytes ? wanted - at : piece.bytes;
    local[local_count] = {piece.data, now};
    at += now;
  }
  const int saved_errno = errno;
  const long got = syscall(SYS_process_vm_readv, tid, local, local_count, remote, pieces, 0);
  errno = saved_errno;
  return got > 0 ? static_cast<std::uint64_t>(got) & ~std::uint64_t{7} : 0;
}

[[gnu::noinline]] SnapshotResult take_snapshot(RingSet& stacks, ThreadState& thread,
                                               const SnapshotSubject& subject) {
  pillion_snapshot header{};
  arch::capture_registers(header.registers);
  const std::uint64_t start = header.registers[PILLION_REG_RSP] & ~(arch::kStackAlignment - 1);
  const bool own = on_own_stack(thread, start);
  std::uint64_t wanted = own ? thread.stack_high - start : kForeignMax;
  std::uint32_t flags = own ? 0 : PILLION_SNAPSHOT_FOREIGN;
  if (wanted > subject.stack_bytes_max) {
    wanted = subject.stack_bytes_max;
    if (own) flags |= PILLION_SNAPSHOT_TRUNCATED;
  }

  const std::uint32_t python_frames = subject.python != nullptr ? subject.python->count : 0;
  const std::uint64_t python_bytes = python_frames * sizeof(pillion_python_frame);
  if (subject.python != nullptr) flags |= subject.python->flags;

  Reservation room;
  const PushResult reserved = stacks.reserve(thread.tid, kHeader + wanted + python_bytes, &room);
  if (reserved != PushResult::ok) return {reserved, flags, 0};
  // Within the lock, so that a new session cannot open the rings before this is decided.
  if (subject.current_session->load(std::memory_order_relaxed) != subject.session) {
    stacks.abort(room);
    return {PushResult::closed, flags, 0};
  }
  std::uint64_t copied = wanted;
  if (own) {
    copy_own(room, start, wanted);
  } else {
    copied = copy_fault_safe(thread.tid, room, kHeader, start, wanted);
    if (copied == 0) flags |= PILLION_SNAPSHOT_FAULTED;
    if (copied == wanted) flags |= PILLION_SNAPSHOT_TRUNCATED;
  }
  const std::uint64_t bytes = kHeader + copied + python_bytes;
  header.header = {PILLION_RECORD_SNAPSHOT, 0, static_cast<std::uint32_t>(bytes)};
  header.correlation = subject.correlation;
  header.tid = thread.tid;
  header.time_ns = subject.time_ns;
  header.context_key = subject.context_key;
  header.maps_generation = maps_generation();
  header.flags = flags;
  header.stack_start = start;
  header.stack_bytes = static_cast<std::uint32_t>(copied);
  header.python_frames = python_frames;
  room.write(0, &header, kHeader);
  if (python_bytes != 0) room.write(kHeader + copied, subject.python->frames, python_bytes);
  stacks.commit(room, bytes);
  return {PushResult::ok, flags, bytes};
}

}  // namespace pillion::shim
