// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/user.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "inject/examination.h"
#include "inject/thread_choice.h"

// Everything of an injection that is the processor's: registers, the frame that leads a thread back, the
// loader's code.
namespace pillion::inject {

using Registers = user_regs_struct;

// What a stopped thread was: all that is put back at the end.
struct ThreadImage {
  Registers registers{};
  std::vector<std::byte> extended;  // NT_X86_XSTATE
  std::uint64_t signal_mask = 0;
};

// The system call that the thread was stopped in, or -1.
[[nodiscard]] std::int64_t interrupted_call(const Registers& registers);

// The same with its arguments, for a thread that was stopped in one.
[[nodiscard]] SleepingThread call_of(std::uint32_t tid, const Registers& registers);

// Restarts what an interruption would otherwise be seen by: EINTR where no signal is pending becomes the call
// begun anew. What the kernel restarts by itself (-512, -513, -514, -516) is left as it is.
[[nodiscard]] Registers repair_interrupted(Registers registers, bool signal_pending);

// A piece of the thread's own stack, written below the red zone before its registers are touched. Whatever
// happens to the injector from then on, the thread comes back by itself: the end of each thing that it is
// made to do is rt_sigreturn with the frame in here, which puts back registers, vector state and signal mask.
class WayBack {
 public:
  // `image` with its registers repaired. `room` bytes below the stack pointer are used at most.
  WayBack(const ThreadImage& image, const TargetFunctions& functions);

  [[nodiscard]] std::uint64_t address() const { return address_; }  // where bytes() belong
  [[nodiscard]] std::span<const std::byte> bytes() const { return bytes_; }
  [[nodiscard]] std::uint64_t text_address() const { return text_; }       // of the text given to set_text
  [[nodiscard]] std::uint64_t thread_slot() const { return text_ + 128; }  // a pthread_t may be written there
  void set_text(const char* text);                                         // up to 127 bytes

  // Registers that make the thread do one system call by libc's own instruction.
  [[nodiscard]] Registers system_call(std::int64_t number,
                                      const std::array<std::uint64_t, 6>& arguments) const;
  // Registers that make it call pthread_create(slot, null, loader, code) through the code page at `code`.
  [[nodiscard]] Registers create_loader(std::uint64_t code) const;

  static constexpr std::uint64_t kRoom =
      96 * 1024;  // stack that must be there: the frame, and pthread_create's needs

 private:
  Registers base_;
  TargetFunctions functions_;
  std::uint64_t address_ = 0;
  std::uint64_t frame_ = 0;  // of the ucontext
  std::uint64_t text_ = 0;
  std::vector<std::byte> bytes_;
};

// Whether the thread has called pthread_create and is about to return by itself; `result` is what that
// returned.
[[nodiscard]] bool loader_created(const Registers& registers, std::uint64_t code, std::int64_t* result);

// The content of the memory file's first page but for LoaderConstants.
[[nodiscard]] std::span<const std::byte> loader_code();

}  // namespace pillion::inject
