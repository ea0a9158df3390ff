// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>

#include "key_table.h"
#include "thread_state.h"

// Decides which launches carry a stack snapshot: the first of each context key, and of all launches one in N,
// with random gaps in [N/2, 3N/2] per thread, so that kernels that alternate cannot starve each other. N
// follows the budget at each tick; in between a token bucket holds it, of which new keys may use only the
// upper half.
namespace pillion::shim {

struct SamplerBudget {
  std::uint32_t permyriad;  // 1/10,000 of the launching threads' time
  std::uint32_t mib_per_s;
  std::uint32_t stack_bytes_max;
  double share = 1;  // of both, above 0 and at most 1: what another sampler leaves
};

enum class SampleReason : std::uint8_t {
  none,
  first,  // nobody has a stack for this key yet
  random,
  refused_first,  // would have been a first, but the budget has none left; told once per key
};

struct SampleDecision {
  SampleReason reason;
  bool key_refused;                  // the key table is full: the key is treated as an old one
  bool key_new;                      // seen for the first time
  std::atomic<std::uint64_t>* slot;  // for sampled(), null when there is none
};

// What happened since the last tick.
struct SamplerTick {
  std::uint64_t elapsed_ns;
  std::uint64_t launches;
  std::uint64_t launching_threads;  // that launched at least once
};

// kKeys: how many call sites it remembers, a power of two.
template <std::size_t kKeys>
class BasicSampler {
 public:
  static constexpr std::uint32_t kIntervalMax = 1u << 20;

  // Capture thread, before launches are recorded.
  void begin(const SamplerBudget& budget);

  // Launch path, any thread: no system call, no lock, no allocation. `until`: the thread's own count down to
  // its next random snapshot by this sampler, 0 before the first call.
  [[nodiscard]] SampleDecision decide(ThreadState& thread, std::uint32_t& until, std::uint64_t context_key);

  // After a snapshot was published: the key has its stack, and the budget has paid.
  void sampled(const SampleDecision& decision, std::uint64_t ns, std::uint64_t bytes);

  // Capture thread: refills the bucket and sets N.
  void tick(const SamplerTick& tick);

  [[nodiscard]] std::uint32_t interval() const { return interval_.load(std::memory_order_relaxed); }

 private:
  using Keys = KeyTable<kKeys>;

  [[nodiscard]] bool affordable(bool first) const;
  [[nodiscard]] bool random_turn(ThreadState& thread, std::uint32_t& until) const;

  // Launch path reads, capture thread writes.
  std::atomic<std::uint32_t> interval_{0};
  std::atomic<std::int64_t> first_floor_ns_{0};  // below it new keys are refused
  std::atomic<std::int64_t> first_floor_bytes_{0};

  alignas(64) std::atomic<std::int64_t> tokens_ns_{0};
  std::atomic<std::int64_t> tokens_bytes_{0};
  std::atomic<std::uint64_t> taken_{0};  // since the last tick, as the next three
  std::atomic<std::uint64_t> firsts_{0};
  std::atomic<std::uint64_t> taken_ns_{0};
  std::atomic<std::uint64_t> taken_bytes_{0};

  // Capture thread alone.
  alignas(64) SamplerBudget budget_{};
  double launches_per_ns_ = 0;
  double firsts_per_ns_ = 0;
  double snapshot_ns_ = 0;
  double snapshot_bytes_ = 0;

  Keys keys_;
};

using Sampler = BasicSampler<65536>;
using SyncSampler = BasicSampler<4096>;
extern template class BasicSampler<65536>;
extern template class BasicSampler<4096>;

// One word to tell call paths apart: thread, stack pointer at entry and what is launched.
[[nodiscard]] inline std::uint64_t context_key(std::uint32_t tid, std::uint64_t sp, std::uint64_t function) {
  std::uint64_t hash = (sp ^ (std::uint64_t{tid} << 47 | tid)) * 0x9e37'79b9'7f4a'7c15u;
  hash ^= function + (hash >> 29);
  hash *= 0xbf58'476d'1ce4'e5b9u;
  return hash ^ hash >> 32;
}

}  // namespace pillion::shim
