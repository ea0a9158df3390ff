// SPDX-License-Identifier: Apache-2.0
#include "collect/collector.h"

#include <algorithm>
#include <atomic>
#include <cstring>

namespace pillion::collect {
namespace {

std::vector<RingReader> readers_of(const RingsView& view) {
  std::vector<RingReader> readers;
  readers.reserve(view.ring_count);
  for (std::uint32_t ring = 0; ring < view.ring_count; ++ring) {
    readers.emplace_back(view.rings + ring, view.data + std::size_t{ring} * view.ring_bytes, view.ring_bytes);
  }
  return readers;
}

double fill(std::uint64_t bytes, std::uint32_t ring_bytes) {
  return static_cast<double>(bytes) / static_cast<double>(ring_bytes);
}

}  // namespace

Collector::Collector(TargetId target, SharedRings rings, ModuleStore& modules)
    : target_(target),
      rings_(std::move(rings)),
      modules_(modules),
      events_(readers_of(rings_.events)),
      stacks_(readers_of(rings_.stacks)),
      shim_counters_(rings_.counters) {}

DrainOutcome Collector::drain(RecordSink& sink) {
  DrainOutcome outcome;
  ++counts_.drains;
  // A snapshot is published before its launch. So the events' heads are read first: the snapshot of any
  // launch below them is below the stacks' heads, which are read after, and is delivered before.
  for (RingReader& reader : events_) {
    if (!reader.look()) ++counts_.ring_resets;
    outcome.fullest = std::max(outcome.fullest, fill(reader.ready_bytes(), rings_.events.ring_bytes));
  }
  for (RingReader& reader : stacks_) {
    if (!reader.look()) ++counts_.ring_resets;
    outcome.fullest = std::max(outcome.fullest, fill(reader.ready_bytes(), rings_.stacks.ring_bytes));
    outcome.bytes += drain_ring(reader, sink, counts_.stacks);
  }
  for (RingReader& reader : events_) outcome.bytes += drain_ring(reader, sink, counts_.events);
  counts_.bytes += outcome.bytes;
  drain_modules();
  return outcome;
}

std::uint64_t Collector::drain_ring(RingReader& reader, RecordSink& sink, ParseCounts& counts) {
  if (reader.ready_bytes() == 0) return 0;
  const auto batch = reader.take(buffer_);
  parse_records(batch, sink, counts);
  return batch.size();
}

void Collector::drain_modules() {
  for (std::uint32_t i = 0; i < rings_.arena.slot_count; ++i) {
    pillion_module_slot& slot = rings_.arena.slots[i];
    const std::atomic_ref<std::uint32_t> state(slot.state);
    // Pairs with the shim's release store: the slot's fields and bytes are written.
    const std::uint32_t now = state.load(std::memory_order_acquire);
    if (now == PILLION_SLOT_EMPTY) continue;
    if (now == PILLION_SLOT_FULL) {
      take_module(slot);
    } else {
      ++counts_.bad_slots;
    }
    // Pairs with the shim's acquire load: the bytes are copied out before they may be overwritten.
    state.store(PILLION_SLOT_EMPTY, std::memory_order_release);
  }
}

void Collector::take_module(const pillion_module_slot& shared) {
  // Read once: the workload may change the slot under our hands. What it checked against is what is used.
  pillion_module_slot slot;
  std::memcpy(&slot, &shared, sizeof(slot));
  std::atomic_signal_fence(std::memory_order_seq_cst);  // and not read again by the compiler's choice
  ModuleBytes module{slot.module, slot.context, slot.origin, slot.crc, slot.time_ns, {}};
  if (slot.origin != PILLION_MODULE_UNLOADED) {
    const std::uint64_t data_bytes = rings_.arena.data_bytes;
    if (slot.offset > data_bytes || slot.bytes > data_bytes - slot.offset) {
      ++counts_.bad_slots;
      return;
    }
    if (slot.bytes > ModuleStore::kBytesMax) return modules_.note_too_large();
    const std::byte* bytes = rings_.arena.data + slot.offset;
    module.bytes.assign(bytes, bytes + slot.bytes);
  }
  ++counts_.modules;
  modules_.add(target_, std::move(module));
}

}  // namespace pillion::collect
