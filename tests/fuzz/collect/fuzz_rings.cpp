// SPDX-License-Identifier: Apache-2.0
// The whole shared memory of a session is the fuzzer's: ring positions, ring bytes, module slots, counters.
//
// Input: rounds of {2 x head of events, 2 x head of stacks, one slot, 64 counter bytes, ring bytes until a
// length is used up}; after each the collector drains. Heads come as offsets from tail with an escape for
// anything else.
#include <cstdint>
#include <cstdlib>

#include "collect/collector.h"
#include "test_rings.h"

using namespace pillion;
using namespace pillion::collect;

namespace {

class Input {
 public:
  Input(const std::uint8_t* data, std::size_t size) : rest_(data, size) {}

  template <typename T>
  T take() {
    T value{};
    const std::size_t bytes = std::min(sizeof(T), rest_.size());
    if (bytes > 0) std::memcpy(&value, rest_.data(), bytes);
    rest_ = rest_.subspan(bytes);
    return value;
  }
  void fill(std::byte* to, std::size_t bytes) {
    bytes = std::min(bytes, rest_.size());
    if (bytes > 0) std::memcpy(to, rest_.data(), bytes);
    rest_ = rest_.subspan(bytes);
  }
  [[nodiscard]] bool empty() const { return rest_.empty(); }

 private:
  std::span<const std::uint8_t> rest_;
};

void check(bool holds) {
  if (!holds) std::abort();
}

void move_head(pillion_ring& ring, Input& input) {
  const auto step = input.take<std::uint16_t>();
  ring.head = step == 0xffff ? input.take<std::uint64_t>() : ring.tail + step;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  constexpr std::uint32_t kEventsBytes = 4'096;
  constexpr std::uint32_t kStacksBytes = 16'384;
  static const TestRings shared({2, kEventsBytes, 2, kStacksBytes, 2, 8'192});
  const SharedRings& rings = shared.rings();
  for (std::uint32_t ring = 0; ring < 2; ++ring) {
    rings.events.rings[ring] = {};
    rings.stacks.rings[ring] = {};
    rings.arena.slots[ring] = {};
  }
  std::memset(shared.events_data().data(), 0, shared.events_data().size());
  std::memset(shared.stacks_data().data(), 0, shared.stacks_data().size());
  std::memset(shared.counters(), 0, sizeof(pillion_counters));

  ModuleStore modules(4, 16'384);
  Collector collector(1, rings, modules);
  SummingSink sink;
  Input input(data, size);
  for (int rounds = 0; rounds < 8 && !input.empty(); ++rounds) {
    for (std::uint32_t ring = 0; ring < 2; ++ring) {
      move_head(rings.events.rings[ring], input);
      move_head(rings.stacks.rings[ring], input);
    }
    rings.arena.slots[rounds % 2] = input.take<pillion_module_slot>();
    input.fill(reinterpret_cast<std::byte*>(shared.counters()) + 64 * (rounds % 8), 64);
    const auto events_bytes = input.take<std::uint16_t>() % kEventsBytes;
    input.fill(rings.events.data + rings.events.rings[0].tail % kEventsBytes, events_bytes / 2);
    input.fill(rings.events.data + kEventsBytes, events_bytes / 2);
    const auto stacks_bytes = input.take<std::uint16_t>() % kStacksBytes;
    input.fill(rings.stacks.data, stacks_bytes);

    const DrainOutcome outcome = collector.drain(sink);
    check(outcome.fullest <= 1.0);
    check(outcome.bytes <= 2 * kEventsBytes + 2 * kStacksBytes);
    const CollectCounts& counts = collector.counts();
    check(sink.records == counts.events.records + counts.stacks.records);
    check(counts.events.malformed_bytes + counts.stacks.malformed_bytes <= counts.bytes);
    check(modules.counts().bytes <= 16'384);
    check(modules.counts().modules <= 4);
    const pillion_counters before = collector.shim_counters().last();
    check(collector.shim_counters().read().launches >= before.launches);
  }
  return 0;
}
