// SPDX-License-Identifier: Apache-2.0
#include "sampler.h"

#include <initializer_list>

namespace pillion::shim {
namespace {

constexpr std::uint32_t kFirstInterval = 32;  // before anything is known
constexpr double kFirstSnapshotNs = 6'000;    // 80-128 KiB, ring-unwind measurements
constexpr double kFirstSnapshotBytes = 96 * 1024;
constexpr double kNewWeight = 0.3;  // of a tick in the running averages
constexpr double kBucketNs = 1e9;   // the bucket holds the budget of one second

std::uint32_t next_random(ThreadState& thread) {  // xorshift32, Marsaglia 2003
  std::uint32_t x = thread.random;
  x ^= x << 13;
  x ^= x >> 17;
  x ^= x << 5;
  thread.random = x;
  return x;
}

// Uniform in [N/2, 3N/2]: N on average.
std::uint32_t draw_gap(ThreadState& thread, std::uint32_t interval) {
  if (interval <= 1) return 1;
  const std::uint32_t low = interval - interval / 2;
  const std::uint32_t span = 2 * (interval / 2) + 1;
  return low + static_cast<std::uint32_t>(std::uint64_t{next_random(thread)} * span >> 32);
}

void average(double* value, double sample) { *value += kNewWeight * (sample - *value); }

// Adds what the time is worth, up to what the bucket holds. Launches take from it meanwhile.
void refill(std::atomic<std::int64_t>* tokens, double amount, double capacity) {
  const auto full = static_cast<std::int64_t>(capacity);
  std::int64_t seen = tokens->load(std::memory_order_relaxed);
  std::int64_t next = 0;
  do {
    next = seen + static_cast<std::int64_t>(amount);
    if (next > full) next = full;
  } while (!tokens->compare_exchange_weak(seen, next, std::memory_order_relaxed));
}

}  // namespace

template <std::size_t kKeys>
void BasicSampler<kKeys>::begin(const SamplerBudget& budget) {
  budget_ = budget;
  launches_per_ns_ = 0;
  firsts_per_ns_ = 0;
  snapshot_ns_ = kFirstSnapshotNs;
  snapshot_bytes_ = kFirstSnapshotBytes;
  const double share = budget.share * budget.permyriad / 1e4;
  const double bytes_per_ns = budget.share * budget.mib_per_s * 1048576.0 / 1e9;
  tokens_ns_.store(static_cast<std::int64_t>(share * kBucketNs), std::memory_order_relaxed);
  tokens_bytes_.store(static_cast<std::int64_t>(bytes_per_ns * kBucketNs), std::memory_order_relaxed);
  first_floor_ns_.store(tokens_ns_.load(std::memory_order_relaxed) / 2, std::memory_order_relaxed);
  first_floor_bytes_.store(tokens_bytes_.load(std::memory_order_relaxed) / 2, std::memory_order_relaxed);
  for (auto* sum : {&taken_, &firsts_, &taken_ns_, &taken_bytes_}) sum->store(0, std::memory_order_relaxed);
  interval_.store(kFirstInterval, std::memory_order_relaxed);
  keys_.clear();
}

template <std::size_t kKeys>
bool BasicSampler<kKeys>::affordable(bool first) const {
  const std::int64_t floor_ns = first ? first_floor_ns_.load(std::memory_order_relaxed) : 0;
  const std::int64_t floor_bytes = first ? first_floor_bytes_.load(std::memory_order_relaxed) : 0;
  return tokens_ns_.load(std::memory_order_relaxed) > floor_ns &&
         tokens_bytes_.load(std::memory_order_relaxed) > floor_bytes;
}

template <std::size_t kKeys>
bool BasicSampler<kKeys>::random_turn(ThreadState& thread, std::uint32_t& until) const {
  const std::uint32_t interval = interval_.load(std::memory_order_relaxed);
  // 0: never drawn. Past 3N/2: drawn for a larger N.
  if (until == 0 || until > interval + interval / 2 + 1) {
    until = draw_gap(thread, interval);
  }
  if (--until != 0) return false;
  until = draw_gap(thread, interval);
  return true;
}

template <std::size_t kKeys>
SampleDecision BasicSampler<kKeys>::decide(ThreadState& thread, std::uint32_t& until,
                                           std::uint64_t context_key) {
  SampleDecision decision{SampleReason::none, false, false, nullptr};
  decision.slot = keys_.find_or_insert(context_key, &decision.key_new);
  decision.key_refused = decision.slot == nullptr;
  // The turn passes also when a first is taken: or a thread of ever new keys would never take a random one.
  const bool turn = random_turn(thread, until);
  const std::uint64_t marks =
      decision.slot != nullptr ? decision.slot->load(std::memory_order_relaxed) : Keys::kMarkA;
  if ((marks & Keys::kMarkA) == 0) {
    if (affordable(true)) {
      decision.reason = SampleReason::first;
      return decision;
    }
    if (!turn && (marks & Keys::kMarkB) == 0) {
      decision.slot->fetch_or(Keys::kMarkB, std::memory_order_relaxed);
      decision.reason = SampleReason::refused_first;
      return decision;
    }
  }
  if (turn && affordable(false)) decision.reason = SampleReason::random;
  return decision;
}

template <std::size_t kKeys>
void BasicSampler<kKeys>::sampled(const SampleDecision& decision, std::uint64_t ns, std::uint64_t bytes) {
  if (decision.slot != nullptr) decision.slot->fetch_or(Keys::kMarkA, std::memory_order_relaxed);
  if (decision.reason == SampleReason::first) firsts_.fetch_add(1, std::memory_order_relaxed);
  tokens_ns_.fetch_sub(static_cast<std::int64_t>(ns), std::memory_order_relaxed);
  tokens_bytes_.fetch_sub(static_cast<std::int64_t>(bytes), std::memory_order_relaxed);
  taken_.fetch_add(1, std::memory_order_relaxed);
  taken_ns_.fetch_add(ns, std::memory_order_relaxed);
  taken_bytes_.fetch_add(bytes, std::memory_order_relaxed);
}

template <std::size_t kKeys>
void BasicSampler<kKeys>::tick(const SamplerTick& tick) {
  if (tick.elapsed_ns == 0) return;
  const auto elapsed = static_cast<double>(tick.elapsed_ns);
  const double threads = tick.launching_threads != 0 ? static_cast<double>(tick.launching_threads) : 1.0;
  const double ns_per_ns = threads * budget_.share * budget_.permyriad / 1e4;
  const double bytes_per_ns = budget_.share * budget_.mib_per_s * 1048576.0 / 1e9;
  refill(&tokens_ns_, ns_per_ns * elapsed, ns_per_ns * kBucketNs);
  refill(&tokens_bytes_, bytes_per_ns * elapsed, bytes_per_ns * kBucketNs);
  // With more threads than before the bucket is larger, but not fuller: a floor that rose at once would
  // refuse all new keys until it has filled.
  const double floor = static_cast<double>(first_floor_ns_.load(std::memory_order_relaxed));
  const double risen = floor + ns_per_ns * elapsed / 2;
  const double half_bucket = ns_per_ns * kBucketNs / 2;
  first_floor_ns_.store(static_cast<std::int64_t>(risen < half_bucket ? risen : half_bucket),
                        std::memory_order_relaxed);

  average(&launches_per_ns_, static_cast<double>(tick.launches) / elapsed);
  const auto firsts = static_cast<double>(firsts_.exchange(0, std::memory_order_relaxed));
  const auto taken = static_cast<double>(taken_.exchange(0, std::memory_order_relaxed));
  const auto taken_ns = static_cast<double>(taken_ns_.exchange(0, std::memory_order_relaxed));
  const auto taken_bytes = static_cast<double>(taken_bytes_.exchange(0, std::memory_order_relaxed));
  average(&firsts_per_ns_, firsts / elapsed);
  if (taken > 0) {
    average(&snapshot_ns_, taken_ns / taken);
    average(&snapshot_bytes_, taken_bytes / taken);
  }
  double affordable_per_ns = ns_per_ns / (snapshot_ns_ + 1);
  if (bytes_per_ns / (snapshot_bytes_ + 1) < affordable_per_ns) {
    affordable_per_ns = bytes_per_ns / (snapshot_bytes_ + 1);
  }
  // What first launches take is not there for random ones, but those keep a quarter.
  double random_per_ns = affordable_per_ns - firsts_per_ns_;
  if (random_per_ns < affordable_per_ns / 4) random_per_ns = affordable_per_ns / 4;
  double wanted = random_per_ns > 0 ? launches_per_ns_ / random_per_ns : kIntervalMax;
  // Down in steps, because one quiet tick is no reason to take every launch of the next.
  const double half = interval() / 2.0;
  if (wanted < half) wanted = half;
  if (wanted > kIntervalMax) wanted = kIntervalMax;
  auto interval = static_cast<std::uint32_t>(wanted);
  if (interval < wanted) ++interval;
  interval_.store(interval < 1 ? 1 : interval, std::memory_order_relaxed);
}

template class BasicSampler<65536>;
template class BasicSampler<4096>;

}  // namespace pillion::shim
