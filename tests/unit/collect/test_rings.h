// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "abi/pillion_abi.h"
#include "base/shared_rings.h"
#include "records.h"

// What the collector's tests, fuzzer and benchmark share: rings without a session, a producer, a sink that
// counts.
namespace pillion::collect {

// Memory shared with forked children, laid out as plain parts.
class TestRings {
 public:
  struct Sizes {
    std::uint32_t events_rings = 2;
    std::uint32_t events_ring_bytes = 4'096;
    std::uint32_t stacks_rings = 2;
    std::uint32_t stacks_ring_bytes = 16'384;
    std::uint32_t slots = 4;
    std::uint64_t arena_bytes = 8'192;
  };

  explicit TestRings(const Sizes& sizes) {
    SharedRings& rings = rings_;
    rings.events.ring_count = sizes.events_rings;
    rings.events.ring_bytes = sizes.events_ring_bytes;
    rings.stacks.ring_count = sizes.stacks_rings;
    rings.stacks.ring_bytes = sizes.stacks_ring_bytes;
    rings.arena.slot_count = sizes.slots;
    rings.arena.data_bytes = sizes.arena_bytes;
    rings.events.rings = take<pillion_ring>(sizes.events_rings * sizeof(pillion_ring));
    rings.stacks.rings = take<pillion_ring>(sizes.stacks_rings * sizeof(pillion_ring));
    rings.arena.slots = take<pillion_module_slot>(sizes.slots * sizeof(pillion_module_slot));
    rings.counters = take<pillion_counters>(sizeof(pillion_counters));
    rings.events.data = take<std::byte>(std::size_t{sizes.events_rings} * sizes.events_ring_bytes);
    rings.stacks.data = take<std::byte>(std::size_t{sizes.stacks_rings} * sizes.stacks_ring_bytes);
    rings.arena.data = take<std::byte>(sizes.arena_bytes);
  }

  [[nodiscard]] const SharedRings& rings() const { return rings_; }
  [[nodiscard]] pillion_counters* counters() const { return const_cast<pillion_counters*>(rings_.counters); }
  [[nodiscard]] std::byte* arena() const { return const_cast<std::byte*>(rings_.arena.data); }
  [[nodiscard]] std::span<std::byte> events_data() const {
    return {rings_.events.data, std::size_t{rings_.events.ring_count} * rings_.events.ring_bytes};
  }
  [[nodiscard]] std::span<std::byte> stacks_data() const {
    return {rings_.stacks.data, std::size_t{rings_.stacks.ring_count} * rings_.stacks.ring_bytes};
  }

 private:
  // Each part is a mapping of its own, so that reading past one faults or is seen by a sanitizer's shadow.
  template <typename T>
  T* take(std::size_t bytes) {
    void* mapped = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (mapped == MAP_FAILED) std::abort();
    parts_.emplace_back(mapped, [bytes](void* start) { ::munmap(start, bytes); });
    return static_cast<T*>(mapped);
  }

  std::vector<std::shared_ptr<void>> parts_;
  SharedRings rings_;
};

// The shim's end of one ring, as design.md describes it, its lock left out: one producer.
class TestProducer {
 public:
  TestProducer(const RingsView& view, std::uint32_t ring)
      : ring_(view.rings + ring),
        data_(view.data + std::size_t{ring} * view.ring_bytes),
        mask_(view.ring_bytes - 1),
        head_(ring_->head) {}

  // False when there is no room.
  bool push(std::span<const std::byte> record) {
    const std::uint64_t tail = std::atomic_ref<std::uint64_t>(ring_->tail).load(std::memory_order_acquire);
    if (record.size() > mask_ + 1 - (head_ - tail)) return false;
    const auto start = static_cast<std::size_t>(head_ & mask_);
    const std::size_t before_end = std::min<std::size_t>(record.size(), mask_ + 1 - start);
    std::memcpy(data_ + start, record.data(), before_end);
    std::memcpy(data_, record.data() + before_end, record.size() - before_end);
    head_ += record.size();
    std::atomic_ref<std::uint64_t>(ring_->head).store(head_, std::memory_order_release);
    return true;
  }
  template <typename Wire>
  requires requires(const Wire& wire) { wire.header.size; }
  bool push(const Wire& record) { return push(std::as_bytes(std::span(&record, 1))); }

 private:
  pillion_ring* ring_;
  std::byte* data_;
  std::uint64_t mask_;
  std::uint64_t head_;
};

template <typename Wire>
Wire make_record(std::uint16_t type, std::uint32_t size = sizeof(Wire)) {
  Wire record{};
  record.header = {type, 0, size};
  return record;
}

inline pillion_launch launch_record(std::uint32_t correlation) {
  auto launch = make_record<pillion_launch>(PILLION_RECORD_LAUNCH);
  launch.correlation = correlation;
  launch.tid = 7;
  launch.kind = PILLION_LAUNCH_KERNEL;
  return launch;
}

// A record with bytes behind it, padded to 8.
template <typename Wire>
std::vector<std::byte> with_tail(Wire record, std::span<const std::byte> tail) {
  const std::size_t size = (sizeof(record) + tail.size() + 7) / 8 * 8;
  record.header.size = static_cast<std::uint32_t>(size);
  std::vector<std::byte> bytes(size);
  std::memcpy(bytes.data(), &record, sizeof(record));
  std::copy(tail.begin(), tail.end(), bytes.begin() + sizeof(record));
  return bytes;
}

inline std::vector<std::byte> snapshot_record(std::uint32_t correlation, std::span<const std::byte> stack) {
  auto snapshot = make_record<pillion_snapshot>(PILLION_RECORD_SNAPSHOT);
  snapshot.correlation = correlation;
  snapshot.stack_start = 0x7ffc0000;
  snapshot.stack_bytes = static_cast<std::uint32_t>(stack.size());
  return with_tail(snapshot, stack);
}

// Keeps everything.
struct KeepingSink final : RecordSink {
  void on_launch(const RawLaunch& launch) override { launches.push_back(launch); }
  void on_launch_failed(const RawLaunchFailed& value) override { failed.push_back(value); }
  void on_returned(const RawReturned& value) override { returns.push_back(value); }
  void on_sync(const RawSync& value) override { syncs.push_back(value); }
  void on_execution(const RawExecution& value) override { executions.push_back(value); }
  void on_overhead(const RawOverhead& value) override { overheads.push_back(value); }
  void on_name(RawName value) override { names.push_back(std::move(value)); }
  void on_thread(RawThread value) override { threads.push_back(std::move(value)); }
  void on_device(RawDevice value) override { devices.push_back(std::move(value)); }
  void on_context(const RawContext& value) override { contexts.push_back(value); }
  void on_python_code(RawPythonCode value) override { codes.push_back(std::move(value)); }
  void on_snapshot(RawSnapshot value) override { snapshots.push_back(std::move(value)); }

  std::vector<RawLaunch> launches;
  std::vector<RawLaunchFailed> failed;
  std::vector<RawReturned> returns;
  std::vector<RawSync> syncs;
  std::vector<RawExecution> executions;
  std::vector<RawOverhead> overheads;
  std::vector<RawName> names;
  std::vector<RawThread> threads;
  std::vector<RawDevice> devices;
  std::vector<RawContext> contexts;
  std::vector<RawPythonCode> codes;
  std::vector<RawSnapshot> snapshots;
};

// Keeps a checksum, so that nothing is optimised away and every byte handed over has been read.
struct SummingSink final : RecordSink {
  void on_launch(const RawLaunch& launch) override {
    sum += launch.correlation;
    ++records;
  }
  void on_launch_failed(const RawLaunchFailed& value) override { add(value.correlation); }
  void on_returned(const RawReturned& value) override { add(value.correlation + value.time_ns); }
  void on_sync(const RawSync& value) override { add(value.correlation + value.time_ns); }
  void on_execution(const RawExecution& value) override { add(value.correlation + value.end_ns); }
  void on_overhead(const RawOverhead& value) override { add(value.start_ns); }
  void on_name(RawName value) override {
    for (const char c : value.name) sum += static_cast<unsigned char>(c);
    ++records;
  }
  void on_thread(RawThread value) override { add(value.comm.size()); }
  void on_device(RawDevice value) override { add(value.name.size()); }
  void on_context(const RawContext& value) override { add(value.context); }
  void on_python_code(RawPythonCode value) override {
    for (const char c : value.qualname + value.filename) sum += static_cast<unsigned char>(c);
    for (const std::byte b : value.line_table) sum += static_cast<unsigned char>(b);
    ++records;
  }
  void on_snapshot(RawSnapshot value) override {
    for (const std::byte b : value.stack) sum += static_cast<unsigned char>(b);
    for (const RawPythonFrame& frame : value.python) sum += frame.code + frame.entry;
    ++records;
  }
  void add(std::uint64_t value) {
    sum += value;
    ++records;
  }
  std::uint64_t sum = 0;
  std::uint64_t records = 0;
};

}  // namespace pillion::collect
