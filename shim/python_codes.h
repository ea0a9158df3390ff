// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "capture_session.h"
#include "python_contents.h"
#include "python_text.h"

namespace pillion::shim {

// Who asks, and what may be used on the way.
struct CodeLook {
  const Interpreter& interpreter;
  ReadablePages& pages;
  CaptureSession& session;
  std::uint32_t number;  // of the session
  std::uint32_t tid;     // the calling thread's
};

// Code objects by number: name, file and lines are copied and sent once per session, at first sight, while a
// frame of the calling thread keeps the object alive. No lock and no allocation; bounded.
//
// What is the same code: addresses are reused as soon as a code object dies (22 to 74 % of the time). From
// 3.12 on (address, co_version, first line) is never the same for two. Before, and where the version has run
// out, the pointers that the object holds are compared, and of what they lead to: the name's hash and length,
// path and line table (up to 40 bytes all of it, of longer ones five words; those of the innermost frames
// always as a whole). Codes with the same contents share a number, which cannot be told from outside.
class PythonCodes {
 public:
  static constexpr std::size_t kCodes = 8192;
  static constexpr std::size_t kTextBytes = std::size_t{16} << 20;
  static constexpr std::uint32_t kNameBytesMax = 1024;
  static constexpr std::uint32_t kFileBytesMax = 4096;
  static constexpr std::uint32_t kLineBytesMax = 65536;

  // Capture thread, while no other thread uses the table: forgets all. False without memory for the text.
  [[nodiscard]] bool begin();

  // Capture thread, as begin(): gives the text's memory back.
  void end();

  // Where an object at this address was met before: its page can be read. Null word: nowhere.
  struct Place {
    std::atomic<std::uint64_t>* word;
    std::uint64_t seen;  // the word's value
  };
  [[nodiscard, gnu::always_inline]] Place find(std::uint64_t code) {
    Set& set = set_of(code);
    std::atomic<std::uint64_t>& first = set.cell[first_way(code)];
    const std::uint64_t seen = first.load(std::memory_order_acquire);
    if ((seen ^ word_of(code, 0)) <= kIdMask) [[likely]]
      return {&first, seen};
    return find_further(set, code);
  }

  // The number of a readable object of type code that a frame of this thread runs, or 0 when there is no room
  // for it. `place` is what find() has said; `table` that of look.interpreter, perhaps as a constant;
  // `thorough`: compare all of the line table. Any thread.
  [[nodiscard, gnu::always_inline]] std::uint32_t id_of(const PythonOffsets& table, const CodeLook& look,
                                                        const Place& place, std::uint64_t code,
                                                        bool thorough) {
    const Checks checks = checks_of(table, code);
    if (place.word != nullptr && place.word[Set::kWays].load(std::memory_order_acquire) == checks.check)
        [[likely]] {
      const auto id = static_cast<std::uint32_t>(place.seen & kIdMask);
      if (checks.enough) {
        if (place.word->load(std::memory_order_relaxed) == place.seen) [[likely]]
          return id;
      } else if (same_contents(table, place, code, thorough)) {
        return id;
      }
    }
    return meet(look, code, checks);
  }

  // Capture thread: sends what found no room in the ring.
  void retry_unsent(CaptureSession& session, std::uint32_t number, std::uint32_t tid);

 private:
  enum State : std::uint8_t { kEmpty, kFilling, kUnsent, kSent };

  struct Slot {
    std::atomic<std::uint8_t> state{kEmpty};
    std::uint32_t offset = 0;
    std::uint32_t bytes = 0;
    std::uint32_t first_line = 0;
    std::uint64_t hash = 0;  // of all contents
  };

  // Objects that were met, by address, with the number of their contents and what tells another object at the
  // same address. Overwritten freely: what is lost is found again by its contents. A writer takes the word
  // away before it changes the checks, and a reader looks at the word again after them: so it believes only
  // what belongs together. One cache line, and another one where versions do not tell.
  struct alignas(64) Set {
    static constexpr std::size_t kWays = 4;
    // Words ((address / 8) << 16 | number; 0: free), then the checks of each, then what is behind its
    // pointers.
    std::atomic<std::uint64_t> cell[3 * kWays];
  };
  static constexpr std::size_t kSets = 1024;
  static constexpr std::uint64_t kIdMask = 0xffff;
  static constexpr std::uint64_t kBusy = 1;  // no object has an address that small
  static_assert(kCodes < kIdMask);

  [[nodiscard]] static std::uint64_t word_of(std::uint64_t code, std::uint64_t id) { return code << 13 | id; }
  [[nodiscard]] static std::size_t first_way(std::uint64_t code) { return code >> 4 & (Set::kWays - 1); }
  [[nodiscard]] Set& set_of(std::uint64_t code) { return sets_[(code >> 4) * 0x9e37'79b9'7f4a'7c15u >> 54]; }

  // In the ways behind the first one.
  [[nodiscard, gnu::noinline]] static Place find_further(Set& set, std::uint64_t code) {
    std::size_t way = first_way(code);
    for (std::size_t tried = 1; tried < Set::kWays; ++tried) {
      way = (way + 1) % Set::kWays;
      const std::uint64_t seen = set.cell[way].load(std::memory_order_acquire);
      if ((seen ^ word_of(code, 0)) <= kIdMask) return {&set.cell[way], seen};
    }
    return {nullptr, 0};
  }

  struct Checks {
    std::uint64_t check;  // of the object itself
    std::uint64_t deep;   // of what it points to; 0 where the check is enough
    bool enough;
  };
  [[nodiscard, gnu::always_inline]] static Checks checks_of(const PythonOffsets& table, std::uint64_t code) {
    const std::uint64_t line = load<std::uint32_t>(code + table.code_first_line);
    if (table.code_version != PythonOffsets::kAbsent) {
      const std::uint64_t version = load<std::uint32_t>(code + table.code_version);
      if (version != 0) [[likely]]
        return {version << 32 | line, 0, true};
    }
    const auto name = load<std::uint64_t>(code + table.code_name);
    const auto file = load<std::uint64_t>(code + table.code_filename);
    const auto lines = load<std::uint64_t>(code + table.code_lines);
    return {
        (name ^ line << 48) * 0xbf58'476d'1ce4'e5b9u + (file ^ line << 32) * 0x94d0'49bb'1331'11ebu + lines,
        0, false};
  }

  [[nodiscard, gnu::always_inline]] bool same_contents(const PythonOffsets& table, const Place& place,
                                                       std::uint64_t code, bool thorough) const {
    const std::uint64_t deep = place.word[2 * Set::kWays].load(std::memory_order_acquire);
    if (place.word->load(std::memory_order_relaxed) != place.seen) return false;
    if (deep != deep_check_of(table, code)) return false;
    return !thorough || same_texts(table, slots_[(place.seen & kIdMask) - 1], code);
  }
  [[nodiscard]] std::uint32_t meet(const CodeLook& look, std::uint64_t code, Checks checks);
  [[nodiscard]] bool fill(Slot& slot, const CodeLook& look, std::uint64_t code, std::uint64_t hash);
  [[nodiscard]] bool same_texts(const PythonOffsets& table, const Slot& slot, std::uint64_t code) const;
  void remember(std::uint64_t code, const Checks& checks, std::uint64_t id);
  void send(Slot& slot, CaptureSession& session, std::uint32_t number, std::uint32_t tid);

  std::uint8_t* text_ = nullptr;  // kTextBytes, mapped once: records as they are sent
  std::atomic<std::size_t> text_used_{0};
  std::atomic<std::uint32_t> unsent_{0};
  Set sets_[kSets]{};
  Slot slots_[kCodes]{};
};

}  // namespace pillion::shim
