// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>

#include "arch.h"
#include "system_calls.h"

// CLOCK_MONOTONIC for the launch path, from the processor's own counter: reading that costs about half of a
// clock_gettime(). Used only where the kernel itself takes its time from the counter, and compared with
// CLOCK_MONOTONIC at every tick of the capture thread; meanwhile, and whenever they do not agree,
// clock_gettime() it is.
namespace pillion::shim {

// Source::ticks() is the counter, Source::ns() CLOCK_MONOTONIC. Zero bytes are a clock that does not count.
template <typename Source>
class BasicStampClock {
 public:
  // By so much it is off at most when it is compared, else it is not used until it has been compared anew.
  static constexpr std::uint64_t kErrorMaxNs = 5'000;
  // Not compared for so long: not used. The counter's own pace is off by some 1e-6 of the time since.
  static constexpr std::uint64_t kTrustedNs = 1'000'000'000;
  static constexpr std::uint64_t kSpanMinNs = 20'000'000;  // two looks closer together say too little

  // Capture thread. `steady`: the counter may be used at all.
  void begin(bool steady) {
    publish({}, 0, 0);
    steady_ = steady;
    seen_ = false;
  }

  // Capture thread: compares, and says how it goes on from here. It never steps: an error is made up for over
  // the time until the next look.
  void tick() {
    if (!steady_) return;
    Look now;
    if (!look(&now)) return;
    if (!seen_) {
      last_ = now;
      seen_ = true;
      return;
    }
    const std::uint64_t ticks = now.ticks - last_.ticks;
    const std::uint64_t ns = now.ns - last_.ns;
    if (ns < kSpanMinNs) return;
    const Look before = last_;
    last_ = now;
    const std::uint64_t rate = ticks != 0 && ns < (1ull << 32) ? (ns << 32) / ticks : 0;
    if (rate == 0 || now.ticks < before.ticks) return publish({}, 0, 0);
    if (rate_.load(std::memory_order_relaxed) == 0) return publish(now, rate, kTrustedNs * ticks / ns);
    const std::uint64_t told = extrapolate(now.ticks);
    const auto error = static_cast<std::int64_t>(now.ns - told);
    if (error > static_cast<std::int64_t>(kErrorMaxNs) || -error > static_cast<std::int64_t>(kErrorMaxNs)) {
      return publish({}, 0, 0);
    }
    const std::int64_t correction = error * (std::int64_t{1} << 32) / static_cast<std::int64_t>(ticks);
    // Preempted since: who read the clock meanwhile has gone on at the old pace.
    if (Source::ns() - now.ns > kErrorMaxNs * 4) return;
    publish({now.ticks, told}, static_cast<std::uint64_t>(static_cast<std::int64_t>(rate) + correction),
            kTrustedNs * ticks / ns);
  }

  // Any thread, any signal context; never waits.
  [[nodiscard]] std::uint64_t now() const {
    // Pairs with the releases in publish(): the four words belong together. Who sees a new one of them sees
    // the odd sequence, too. (No fences: ThreadSanitizer does not know them.)
    const std::uint32_t before = sequence_.load(std::memory_order_acquire);
    const std::uint64_t rate = rate_.load(std::memory_order_acquire);
    const std::uint64_t from = ticks_.load(std::memory_order_acquire);
    const std::uint64_t ns = ns_.load(std::memory_order_acquire);
    const std::uint64_t trusted = trusted_.load(std::memory_order_acquire);
    const std::uint64_t passed = Source::ticks() - from;
    if (rate == 0 || (before & 1) != 0 || sequence_.load(std::memory_order_relaxed) != before ||
        passed > trusted) [[unlikely]] {
      return Source::ns();
    }
    return ns + scaled(passed, rate);
  }

  [[nodiscard]] bool counts() const { return rate_.load(std::memory_order_relaxed) != 0; }

 private:
  struct Look {
    std::uint64_t ticks = 0;
    std::uint64_t ns = 0;
  };

  static std::uint64_t scaled(std::uint64_t ticks, std::uint64_t rate) {
    return static_cast<std::uint64_t>((static_cast<unsigned __int128>(ticks) * rate) >> 32);
  }
  [[nodiscard]] std::uint64_t extrapolate(std::uint64_t ticks) const {
    return ns_.load(std::memory_order_relaxed) +
           scaled(ticks - ticks_.load(std::memory_order_relaxed), rate_.load(std::memory_order_relaxed));
  }

  // Both clocks at one moment: the closest bracket of a few. False when each was interrupted.
  static bool look(Look* out) {
    constexpr std::uint64_t kBracketMaxNs = 1'000;
    std::uint64_t closest = kBracketMaxNs;
    for (int tried = 0; tried < 8; ++tried) {
      const std::uint64_t begin = Source::ns();
      const std::uint64_t ticks = Source::ticks();
      const std::uint64_t end = Source::ns();
      if (end - begin >= closest) continue;
      closest = end - begin;
      *out = {ticks, begin + closest / 2};
    }
    return closest < kBracketMaxNs;
  }

  void publish(const Look& from, std::uint64_t rate, std::uint64_t trusted_ticks) {
    const std::uint32_t sequence = sequence_.load(std::memory_order_relaxed);
    sequence_.store(sequence + 1, std::memory_order_relaxed);
    // Each a release: the odd sequence is seen before it.
    ticks_.store(from.ticks, std::memory_order_release);
    ns_.store(from.ns, std::memory_order_release);
    rate_.store(rate, std::memory_order_release);
    trusted_.store(trusted_ticks, std::memory_order_release);
    sequence_.store(sequence + 2, std::memory_order_release);
  }

  std::atomic<std::uint32_t> sequence_{0};  // odd while the words below change
  std::atomic<std::uint64_t> ticks_{0};
  std::atomic<std::uint64_t> ns_{0};       // at ticks_
  std::atomic<std::uint64_t> rate_{0};     // ns per tick, times 2^32; 0: not used
  std::atomic<std::uint64_t> trusted_{0};  // ticks after ticks_

  // Capture thread alone.
  bool steady_ = false;
  bool seen_ = false;
  Look last_{};
};

struct ProcessorClock {
  static std::uint64_t ticks() { return arch::ticks(); }
  static std::uint64_t ns() { return monotonic_ns(); }
};

extern BasicStampClock<ProcessorClock> g_stamp_clock;

[[nodiscard]] inline std::uint64_t stamp_ns() { return g_stamp_clock.now(); }

// Whether the counter runs at one pace on all processors, by what the processor says and by the kernel's own
// choice of it. Capture thread: reads a file.
[[nodiscard]] bool processor_clock_is_steady();

}  // namespace pillion::shim
