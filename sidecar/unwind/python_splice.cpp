// SPDX-License-Identifier: Apache-2.0
#include "unwind/python_splice.h"

#include <algorithm>
#include <cstddef>

#include "abi/pillion_abi.h"

namespace pillion::unwind {
namespace {

constexpr std::size_t kNowhere = ~std::size_t{0};

// Python frames that one native frame of the interpreter's loop runs.
struct Run {
  std::span<const RawPythonFrame> frames;  // leaf first; the last one is the entry frame
  std::size_t place = kNowhere;            // index of the native frame
};

std::vector<Run> runs_of(std::span<const RawPythonFrame> frames) {
  std::vector<Run> runs;
  while (!frames.empty()) {
    const auto entry = std::find_if(frames.begin(), frames.end(),
                                    [](const RawPythonFrame& frame) { return frame.entry != 0; });
    const auto length =
        entry == frames.end() ? frames.size() : static_cast<std::size_t>(entry - frames.begin()) + 1;
    runs.push_back({frames.first(length)});
    frames = frames.subspan(length);
  }
  return runs;
}

// The native frame from `next` on that holds `address`.
std::size_t frame_around(const NativeStack& native, std::uint64_t address, std::size_t next) {
  for (std::size_t i = next; i < native.frames.size() && i + 1 < native.stack_pointers.size(); ++i) {
    if (address >= native.stack_pointers[i] && address < native.stack_pointers[i + 1]) return i;
  }
  return kNowhere;
}

std::size_t next_eval_loop(const NativeStack& native, InterpreterCode& code, std::size_t next) {
  for (std::size_t i = next; i < native.frames.size(); ++i) {
    if (code.is_eval_loop(native.frames[i])) return i;
  }
  return kNowhere;
}

// Both chains run from the leaf to the root, so places only grow.
void place(std::vector<Run>& runs, const NativeStack& native, const RawSnapshot& snapshot,
           InterpreterCode& code) {
  std::size_t next = 0;
  for (Run& run : runs) {
    const std::uint64_t entry = run.frames.back().entry;
    const bool by_symbol = entry == 0 || entry == PILLION_PYTHON_ENTRY_UNPLACED;
    if (!by_symbol) {
      run.place = frame_around(native, entry, next);
    } else if (!snapshot
                    .python_partial) {  // else runs may be missing on the leaf side, and counting misleads
      run.place = next_eval_loop(native, code, next);
    }
    if (run.place != kNowhere) next = run.place + 1;
  }
}

// Writes the spliced stack, leaf first.
class Splice {
 public:
  Splice(const std::vector<Run>& runs, PythonSplice& result) : runs_(runs), result_(result) {}

  void up_to(std::size_t native_index) {  // the runs without a place that come before that frame
    while (next_ < runs_.size() && runs_[next_].place == kNowhere && placed_later(native_index)) emit();
  }
  bool take(std::size_t native_index) {
    up_to(native_index);
    if (next_ == runs_.size() || runs_[next_].place != native_index) return false;
    emit();
    return true;
  }
  void keep(const UnwoundFrame& frame) { frames_.push_back(frame); }
  // A frame of the loop that is left: the frames that it ran are missing, said once between two runs.
  void keep_loop(const UnwoundFrame& frame) {
    if (!said_here_) frames_.push_back(UnwoundFrame::mark(FrameKind::python_cut));
    said_here_ = said_ = true;
    frames_.push_back(frame);
  }
  void finish(bool incomplete) {
    while (next_ < runs_.size()) emit();
    if (!incomplete || said_) return;
    frames_.insert(frames_.begin() + static_cast<std::ptrdiff_t>(python_end_),
                   UnwoundFrame::mark(FrameKind::python_cut));
  }
  [[nodiscard]] std::vector<UnwoundFrame> frames() { return std::move(frames_); }

 private:
  // Whether the first run with a place, from the next one on, has that one.
  [[nodiscard]] bool placed_later(std::size_t native_index) const {
    for (std::size_t i = next_; i < runs_.size(); ++i) {
      if (runs_[i].place != kNowhere) return runs_[i].place == native_index;
    }
    return false;
  }
  void emit() {
    const Run& run = runs_[next_++];
    ++result_.entries;
    if (run.place == kNowhere) {
      ++result_.unplaced;
      frames_.push_back(UnwoundFrame::mark(FrameKind::python_unplaced));
    }
    for (const RawPythonFrame& frame : run.frames)
      frames_.push_back(UnwoundFrame::python(frame.code, frame.offset));
    result_.frames += run.frames.size();
    python_end_ = frames_.size();
    said_here_ = false;
  }

  const std::vector<Run>& runs_;
  PythonSplice& result_;
  std::vector<UnwoundFrame> frames_;
  std::size_t next_ = 0;
  std::size_t python_end_ = 0;  // behind the last Python frame so far
  bool said_here_ = false;      // that frames are missing, since the last run
  bool said_ = false;           // that frames are missing, anywhere
};

// The native frame that called a greenlet's first function: the first of greenlet's own behind the last run.
// kNowhere where the stack is no greenlet's, or where nobody knows which run is the last.
std::size_t start_of_greenlet(const std::vector<Run>& runs, const NativeStack& native,
                              const RawSnapshot& snapshot, InterpreterCode& code) {
  if (snapshot.python_cut || snapshot.python_partial || runs.empty()) return kNowhere;
  if (runs.back().place == kNowhere) return kNowhere;
  for (std::size_t i = runs.back().place + 1; i < native.frames.size(); ++i) {
    if (code.is_greenlet(native.frames[i].file)) return i;
  }
  return kNowhere;
}

}  // namespace

std::vector<UnwoundFrame> splice_python(const NativeStack& native, const RawSnapshot& snapshot,
                                        InterpreterCode& code, PythonSplice& result) {
  auto runs = runs_of(snapshot.python);
  place(runs, native, snapshot, code);
  const bool any =
      std::any_of(runs.begin(), runs.end(), [](const Run& run) { return run.place != kNowhere; });
  const std::size_t start = start_of_greenlet(runs, native, snapshot, code);
  result.greenlet = start != kNowhere;
  const std::size_t end = result.greenlet ? start + 1 : native.frames.size();
  Splice splice(runs, result);
  for (std::size_t i = 0; i < end; ++i) {
    const UnwoundFrame& frame = native.frames[i];
    if (splice.take(i)) continue;
    const bool interpreter = frame.file != 0 && code.is_interpreter(frame.file);
    // Not asked of each library: some have a million symbols to look through.
    const bool eval_loop =
        (interpreter || (frame.file != 0 && code.is_program(frame.file))) && code.is_eval_loop(frame);
    if (eval_loop) ++result.evals_left;
    if (any && eval_loop) {
      splice.keep_loop(frame);
    } else if (!any || !interpreter) {
      splice.keep(frame);
    }
  }
  splice.finish(snapshot.python_cut || snapshot.python_partial);
  return splice.frames();
}

}  // namespace pillion::unwind
