// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>

namespace pillion::shim {

// Whether cuptiActivityFlushAll may be called now.
//
// A flush waits for what is under way, and hands over more slowly than CUPTI's own thread does. Where records
// come faster than that (threads that replay graphs of small kernels: 700,000 a second and more on an H200,
// CUDA 13.0; 400,000 did no harm) each flush takes longer than the one before, until one does not return, and
// CUPTI takes 40 MiB a second of the device's and of the program's memory meanwhile, up to 1 GiB of each, and
// keeps it (tests/gpu/flush_facts.cpp). It is not needed there: a buffer is full after a few
// milliseconds of such a flood, and full ones come by themselves.
class FlushPolicy {
 public:
  static constexpr std::uint64_t kCalmRecordsPerSecond = 300'000;
  static constexpr std::uint64_t kLookNs = 20'000'000;  // a shorter time says nothing about a rate

  // Capture thread. A session begins; calm until records say otherwise.
  void begin(std::uint64_t now_ns);
  // Capture thread, before it would flush: `records` that came in this session so far. False so soon after
  // the begin, or the last look, that they say nothing.
  bool look(std::uint64_t records, std::uint64_t now_ns);
  // Any thread.
  [[nodiscard]] bool allowed() const { return calm_.load(std::memory_order_relaxed); }

 private:
  std::atomic<bool> calm_{true};
  std::uint64_t records_ = 0;
  std::uint64_t looked_ns_ = 0;
};

}  // namespace pillion::shim
