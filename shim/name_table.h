// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "ring_writer.h"

namespace pillion::shim {

// Kernel names, copied once per session and then known by a number, because CUPTI's strings go away with
// their buffer and a 300-byte name in every record would cost three times the record. Bounded; takes no lock:
// two threads that meet a new name at once may give it two ids, which the reader does not mind. Lives in
// static storage, its text in pages that are touched as they fill.
class NameTable {
 public:
  static constexpr std::size_t kSlots = 16384;
  static constexpr std::size_t kTextBytes = std::size_t{8} << 20;
  static constexpr std::size_t kLengthMax = 16384;  // a longer name is cut; demanglers give up there anyway

  // Capture thread, while no other thread uses the table: forgets all. False without memory for the text.
  [[nodiscard]] bool begin();

  // Capture thread, after the session, when no completion goes on: gives the text's memory back.
  void end();

  // The name's id (from 1), or 0 when the table is full. Sends its NAME record the first time. Any thread.
  [[nodiscard]] std::uint32_t intern(const char* name, RingSet& events, std::uint32_t tid);

  // Capture thread: sends what could not be sent before. Returns how many names are still unsent.
  std::uint32_t retry_unsent(RingSet& events, std::uint32_t tid);

  [[nodiscard]] std::uint64_t refused() const { return refused_.load(std::memory_order_relaxed); }

 private:
  enum State : std::uint8_t { kEmpty, kFilling, kUnsent, kSent };

  struct Slot {
    std::atomic<std::uint8_t> state{kEmpty};
    std::uint32_t offset = 0;
    std::uint32_t length = 0;
    std::uint64_t hash = 0;
  };

  [[nodiscard]] bool fill(Slot& slot, const char* name, std::uint32_t length, std::uint64_t hash);
  void send(Slot& slot, RingSet& events, std::uint32_t tid);

  char* text_ = nullptr;  // kTextBytes, null between sessions
  std::atomic<std::size_t> text_used_{0};
  std::atomic<std::uint32_t> unsent_{0};
  std::atomic<std::uint64_t> refused_{0};
  Slot slots_[kSlots]{};
};

}  // namespace pillion::shim
