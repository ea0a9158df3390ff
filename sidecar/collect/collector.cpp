// SPDX-License-Identifier: Apache-2.0
#include "collect/collector.h"

#include <algorithm>
#include <atomic>
#include <cstring>

#include "base/clock.h"

namespace pillion::collect {
namespace {

double fill(std::uint64_t bytes, std::uint32_t ring_bytes) {
  return static_cast<double>(bytes) / static_cast<double>(ring_bytes);
}

}  // namespace

std::vector<Collector::Ring> Collector::rings_of(const RingsView& view) {
  std::vector<Ring> rings;
  rings.reserve(view.ring_count);
  for (std::uint32_t ring = 0; ring < view.ring_count; ++ring) {
    rings.push_back(
        {{view.rings + ring, view.data + std::size_t{ring} * view.ring_bytes, view.ring_bytes}, {}});
  }
  return rings;
}

Collector::Collector(TargetId target, SharedRings rings, ModuleStore& modules)
    : target_(target),
      rings_(std::move(rings)),
      modules_(modules),
      events_(rings_of(rings_.events)),
      stacks_(rings_of(rings_.stacks)),
      shim_counters_(rings_.counters) {}

// A snapshot is published before its launch. So the events' heads are read first: the snapshot of any launch
// below them is below the stacks' heads, which are read after, and is delivered before.
bool Collector::look() {
  if (in_pass_) return false;
  in_pass_ = true;
  next_ = 0;
  outcome_ = {};
  ++counts_.drains;
  for (Ring& ring : events_) counts_.ring_resets += ring.reader.look() ? 0 : 1;
  return true;
}

DrainOutcome Collector::deliver(RecordSink& sink, std::uint64_t deadline_ns) {
  const std::size_t rings = stacks_.size() + events_.size();
  outcome_.finished = false;
  for (bool first = true; next_ < rings; ++next_, first = false) {
    if (!first && deadline_ns != kNoDeadline && monotonic_ns() >= deadline_ns) return outcome_;
    const bool stacks = next_ < stacks_.size();
    Ring& ring = stacks ? stacks_[next_] : events_[next_ - stacks_.size()];
    if (stacks && !ring.reader.look()) ++counts_.ring_resets;
    const RingsView& view = stacks ? rings_.stacks : rings_.events;
    outcome_.fullest = std::max(outcome_.fullest, fill(ring.reader.ready_bytes(), view.ring_bytes));
    const std::uint64_t bytes = drain_ring(ring, sink, stacks ? counts_.stacks : counts_.events);
    outcome_.bytes += bytes;
    counts_.bytes += bytes;
  }
  drain_modules();
  in_pass_ = false;
  outcome_.finished = true;
  return outcome_;
}

void Collector::release() {
  shim_counters_.release();
  events_.clear();
  stacks_.clear();
  buffer_ = {};
  rings_ = {};
  in_pass_ = false;
}

std::uint64_t Collector::drain_ring(Ring& ring, RecordSink& sink, ParseCounts& counts) {
  if (ring.reader.ready_bytes() == 0) return 0;
  const auto batch = ring.reader.take(buffer_);
  const std::uint64_t before = ring.sequence.missing;
  parse_records(batch, sink, counts, ring.sequence);
  counts_.records_missing += ring.sequence.missing - before;
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
