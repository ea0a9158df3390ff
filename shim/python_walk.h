// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <pthread.h>

#include <cstdint>

#include "python_find.h"
#include "readable_pages.h"

namespace pillion::shim {

// One Python frame as it is found.
template <typename Met>
struct FrameSight {
  std::uint64_t code;         // address of a PyCodeObject, readable and of the right type
  std::int32_t offset;        // as in pillion_python_frame
  std::uint64_t entry;        // the same; 0 with versions that have shims, whose boundary comes as a step
  typename Met::Place place;  // what Met::find(code) said
};

// The table of one version as a constant, so that an access is one instruction; and one that is only known at
// run time.
template <std::size_t kIndex>
struct FixedTable {
  constexpr const PythonOffsets& operator*() const { return kPythonTables[kIndex]; }
};
struct FreeTable {
  const PythonOffsets* table;
  const PythonOffsets& operator*() const { return *table; }
};

// Pages that the calling thread's last walk was told can be read, for the next one. Zero: none.
struct PageMemory {
  std::uint64_t generation;  // of the ReadablePages
  std::uint64_t thread;      // addresses of pages
  std::uint64_t stack;
  std::uint64_t frame;
};

// The Python frames of the calling thread, from the innermost on. Read raw, without the GIL: the thread is
// inside C, so its own chain stands still. Never faults as long as the interpreter does not free what its
// chain leads to: pages are tried before their first use, alignment, types and ranges are checked, and a walk
// ends after a bounded number of steps. To be used at once and on one thread; not in a signal handler, nor
// while the interpreter ends.
//
// `Met` knows addresses at which code objects were found before in this session (PythonCodes::find()).
template <typename Table, typename Met>
class FrameChain {
 public:
  enum class Step : std::uint8_t {
    frame,     // `sight` is filled
    boundary,  // 3.12 on: the frames since the last one ran in one native frame, which has `sight->entry` in
               // it
    end,
    broken  // something is not what it must be: there is no going on
  };

  enum class Start : std::uint8_t {
    none,    // no Python on this thread
    ready,   // next() may find frames
    doubt,   // the same, but these may be frames of another interpreter, further out on this thread
    broken,  // the thread state is not this thread's
  };

  // `memory` is the calling thread's.
  FrameChain(Table table, const Interpreter& interpreter, ReadablePages& pages, Met& met, PageMemory& memory)
      : table_(table), interpreter_(interpreter), pages_(pages), met_(met), memory_(memory) {
    generation_ = pages.generation();
    if (generation_ != memory.generation) return;
    thread_page_[0] = memory.thread;
    stack_page_[0] = memory.stack;
    frame_page_[0] = memory.frame;
  }
  ~FrameChain() { memory_ = {generation_, thread_page_[0], stack_page_[0], frame_page_[0]}; }
  FrameChain(const FrameChain&) = delete;
  FrameChain& operator=(const FrameChain&) = delete;

  [[nodiscard]] PILLION_RAW Start begin() {
    const PythonOffsets& table = *table_;
    if (interpreter_.is_finalizing() != 0) return Start::none;
    auto thread = reinterpret_cast<std::uint64_t>(interpreter_.this_thread_state());
    if (thread == 0) return Start::none;
    Start start = Start::ready;
    if (table.runtime_current != PythonOffsets::kAbsent) thread = choose_thread_state(thread, &start);
    if (!readable(thread, table.thread_bytes(), thread_page_)) return Start::broken;
    if (load<std::uint64_t>(thread + table.thread_id) != ::pthread_self()) return Start::broken;
    if (table.thread_cframe != PythonOffsets::kAbsent)
      cframe_ = load<std::uint64_t>(thread + table.thread_cframe);
    if (table.cframe_frame == PythonOffsets::kAbsent) {
      frame_ = load<std::uint64_t>(thread + table.thread_frame);
    } else {
      if (!readable(cframe_, table.cframe_bytes(), stack_page_)) return Start::broken;
      frame_ = load<std::uint64_t>(cframe_ + table.cframe_frame);
    }
    return start;
  }

  [[nodiscard, gnu::always_inline]] Step next(FrameSight<Met>* sight) {
    if ((*table_).frames_are_objects()) return next_object(sight);
    return next_frame(sight);
  }

 private:
  static constexpr std::uint64_t kTypeAt = 8;                        // ob_type
  static constexpr std::uint64_t kCountAt = 16;                      // ob_size
  static constexpr std::uint64_t kNoPage = ~std::uint64_t{0} << 13;  // never readable
  static constexpr std::uint32_t kStepsMax = 4096;
  static constexpr std::int32_t kBytecodeMax = 1 << 28;
  static constexpr std::uint8_t kOwnedByGenerator = 1;
  static constexpr std::uint8_t kOwnedByCStack = 3;  // and the next: no code of the program

  // Two pages are remembered per kind of object, by their addresses: those of a kind mostly lie side by side,
  // and shims do so on the C stack.
  [[nodiscard, gnu::always_inline]] bool readable(std::uint64_t at, std::uint64_t bytes,
                                                  std::uint64_t* page) {
    if ((at & 7) != 0) return false;
    if (at - page[0] <= ReadablePages::kPage - bytes || at - page[1] <= ReadablePages::kPage - bytes)
        [[likely]]
      return true;
    return readable_elsewhere(at, bytes, page);
  }
  [[nodiscard, gnu::noinline]] bool readable_elsewhere(std::uint64_t at, std::uint64_t bytes,
                                                       std::uint64_t* page) {
    if (!pages_.readable(at, bytes)) return false;
    page[1] = page[0];
    page[0] = at & ~(ReadablePages::kPage - 1);
    return true;
  }

  // Up to 3.11 a thread that is in a sub-interpreter is known by its state in the main one. Whoever holds the
  // GIL is known by its current state.
  PILLION_RAW std::uint64_t choose_thread_state(std::uint64_t own, Start* start) {
    const PythonOffsets& table = *table_;
    const std::uint64_t interpreters = interpreter_.runtime + table.runtime_interpreters;
    const std::uint64_t current_at = interpreter_.runtime + table.runtime_current;
    if (!pages_.readable(interpreters, 16) || !pages_.readable(current_at, 8)) return 0;
    if (load<std::uint64_t>(interpreters) == load<std::uint64_t>(interpreters + 8)) return own;
    const auto current = load<std::uint64_t>(current_at);
    if (current != 0 && (current & 7) == 0 && pages_.readable(current, table.thread_bytes()) &&
        load<std::uint64_t>(current + table.thread_id) == ::pthread_self())
      return current;
    *start = Start::doubt;
    return own;
  }

  [[gnu::always_inline]] bool is_code(std::uint64_t code, FrameSight<Met>* sight) {
    if ((code & 7) != 0 || code < ReadablePages::kPage) return false;  // find() takes real addresses only
    sight->place = met_.find(code);
    return (sight->place.word != nullptr || readable(code, (*table_).code_bytes(), code_page_)) &&
           load<std::uint64_t>(code + kTypeAt) == interpreter_.code_type;
  }

  // Goes from the C frame of one entry frame to that of the next one.
  [[gnu::always_inline]] bool leave_cframe(FrameSight<Met>* sight) {
    sight->entry = cframe_;
    if (cframe_ == 0 || !readable(cframe_, (*table_).cframe_bytes(), stack_page_)) return false;
    cframe_ = load<std::uint64_t>(cframe_ + (*table_).cframe_previous);
    return true;
  }

  // 3.9 and 3.10: frames are objects, each runs in a native frame of its own.
  [[gnu::always_inline]] Step next_object(FrameSight<Met>* sight) {
    const PythonOffsets& table = *table_;
    if (frame_ == 0) return Step::end;
    if (++steps_ > kStepsMax || !readable(frame_, table.frame_bytes(), frame_page_)) return Step::broken;
    if (load<std::uint64_t>(frame_ + kTypeAt) != interpreter_.frame_type) return Step::broken;
    sight->code = load<std::uint64_t>(frame_ + table.frame_code);
    if (!is_code(sight->code, sight)) return Step::broken;
    sight->offset = load<std::int32_t>(frame_ + table.frame_instruction);
    if (sight->offset < -1 || sight->offset > kBytecodeMax) return Step::broken;
    sight->entry = 1;  // PILLION_PYTHON_ENTRY_UNPLACED
    if (table.thread_cframe != PythonOffsets::kAbsent) {
      sight->offset *= 2;
      if (!leave_cframe(sight)) return Step::broken;
    }
    frame_ = load<std::uint64_t>(frame_ + table.frame_previous);
    return Step::frame;
  }

  // From 3.11 on.
  [[gnu::always_inline]] Step next_frame(FrameSight<Met>* sight) {
    const PythonOffsets& table = *table_;
    while (frame_ != 0) {
      if (++steps_ > kStepsMax || !readable(frame_, table.frame_bytes(), frame_page_)) return Step::broken;
      const std::uint64_t frame = frame_;
      const auto owner = load<std::uint8_t>(frame + table.frame_owner);
      frame_ = load<std::uint64_t>(frame + table.frame_previous);
      sight->entry = 0;
      if (owner >= kOwnedByCStack) {
        if (!table.has_shims() || owner > kOwnedByCStack + 1) return Step::broken;
        sight->entry = frame;
        return Step::boundary;
      }
      sight->code = load<std::uint64_t>(frame + table.frame_code) & ~std::uint64_t{3};
      if (!is_code(sight->code, sight)) return Step::broken;
      if (!table.has_shims() && load<std::uint8_t>(frame + table.frame_is_entry) != 0 && !leave_cframe(sight))
        return Step::broken;
      const std::uint64_t start = sight->code + table.code_bytecode;
      const auto units = load<std::uint64_t>(sight->code + kCountAt);
      const auto instruction = load<std::uint64_t>(frame + table.frame_instruction);
      const auto offset = static_cast<std::int64_t>(instruction - start);
      // 3.11 and 3.12 point at the instruction before the first one until it runs.
      if (units - 1 >= kBytecodeMax / 2 || static_cast<std::uint64_t>(offset + 2) > 2 * units + 2 ||
          (offset & 1) != 0)
        return Step::broken;
      // Frames that are being set up, and the one that calls __init__ in 3.13, are none to a debugger either.
      const std::int64_t traceable = load<std::int32_t>(sight->code + table.code_first_traceable);
      if (owner != kOwnedByGenerator && offset < 2 * traceable) continue;
      sight->offset = static_cast<std::int32_t>(offset);
      return Step::frame;
    }
    return Step::end;
  }

  const Table table_;
  const Interpreter& interpreter_;
  ReadablePages& pages_;
  Met& met_;
  PageMemory& memory_;
  std::uint64_t generation_;
  std::uint64_t frame_ = 0;   // the next one
  std::uint64_t cframe_ = 0;  // that of the next entry frame
  std::uint64_t thread_page_[2] = {kNoPage, kNoPage};
  std::uint64_t frame_page_[2] = {kNoPage, kNoPage};
  std::uint64_t code_page_[2] = {kNoPage, kNoPage};
  std::uint64_t stack_page_[2] = {kNoPage, kNoPage};
  std::uint32_t steps_ = 0;
};

// Calls `visit` with the table of this interpreter's version, as a constant where it is the built-in one.
template <typename Visit>
[[gnu::always_inline]] inline auto with_table(const Interpreter& interpreter, Visit visit) {
  const std::uint64_t behind = reinterpret_cast<std::uint64_t>(interpreter.offsets) -
                               reinterpret_cast<std::uint64_t>(&kPythonTables[0]);
  std::uint64_t index = behind / sizeof(PythonOffsets);
  if (index >= kPythonVersions || behind % sizeof(PythonOffsets) != 0) index = kPythonVersions;
  static_assert(kPythonVersions == 6);
  switch (index) {
    case 0:
      return visit(FixedTable<0>{});
    case 1:
      return visit(FixedTable<1>{});
    case 2:
      return visit(FixedTable<2>{});
    case 3:
      return visit(FixedTable<3>{});
    case 4:
      return visit(FixedTable<4>{});
    case 5:
      return visit(FixedTable<5>{});
    default:
      return visit(FreeTable{interpreter.offsets});
  }
}

}  // namespace pillion::shim
