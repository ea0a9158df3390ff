// SPDX-License-Identifier: Apache-2.0
#include "capture.h"

#include <link.h>
#include <pthread.h>
#include <sys/uio.h>
#include <unistd.h>
#include <unwind.h>

#include <array>
#include <fstream>
#include <sstream>

#include "abi/pillion_abi.h"

namespace pillion::test {
namespace {

struct BacktraceState {
  std::span<ExpectedFrame> frames;
  std::size_t count = 0;
};

_Unwind_Reason_Code on_frame(_Unwind_Context* context, void* argument) {
  auto& state = *static_cast<BacktraceState*>(argument);
  int before = 0;
  const auto pc = static_cast<std::uint64_t>(_Unwind_GetIPInfo(context, &before));
  if (pc == 0 || state.count == state.frames.size()) return _URC_END_OF_STACK;
  state.frames[state.count++] = {pc, 0, before == 0};
  return _URC_NO_REASON;
}

int on_object(dl_phdr_info* info, std::size_t, void* argument) {
  for (auto& frame : *static_cast<std::span<ExpectedFrame>*>(argument)) {
    for (int i = 0; i < info->dlpi_phnum; ++i) {
      const auto& program = info->dlpi_phdr[i];
      const std::uint64_t into = frame.pc - 1 - info->dlpi_addr - program.p_vaddr;
      if (program.p_type == PT_LOAD && into < program.p_memsz) frame.address = frame.pc - info->dlpi_addr;
    }
  }
  return 0;
}

}  // namespace

std::uint64_t own_stack_high() {
  pthread_attr_t attributes;
  void* low = nullptr;
  std::size_t bytes = 0;
  pthread_getattr_np(pthread_self(), &attributes);
  pthread_attr_getstack(&attributes, &low, &bytes);
  pthread_attr_destroy(&attributes);
  return reinterpret_cast<std::uint64_t>(low) + bytes;
}

bool copy_memory(std::uint64_t address, std::span<std::byte> into) {
  iovec to{into.data(), into.size()};
  iovec from{reinterpret_cast<void*>(address), into.size()};
  return ::process_vm_readv(::getpid(), &to, 1, &from, 1, 0) == static_cast<ssize_t>(into.size());
}

[[gnu::noinline]] std::size_t backtrace_raw(std::span<ExpectedFrame> frames) {
  BacktraceState state{frames};
  _Unwind_Backtrace(on_frame, &state);
  return state.count;
}

void locate(std::span<ExpectedFrame> frames) { dl_iterate_phdr(on_object, &frames); }

// Frames from this function's caller on are the same in both: its own pc differs, and backtrace_raw is one
// deeper.
[[gnu::noinline]] void capture_here(std::uint64_t stack_high, Capture& capture) {
  std::uint64_t regs[8];
  asm volatile(
      "leaq 0(%%rip), %%rax\n\t"
      "movq %%rax, 0(%0)\n\t"
      "movq %%rsp, 8(%0)\n\t"
      "movq %%rbp, 16(%0)\n\t"
      "movq %%rbx, 24(%0)\n\t"
      "movq %%r12, 32(%0)\n\t"
      "movq %%r13, 40(%0)\n\t"
      "movq %%r14, 48(%0)\n\t"
      "movq %%r15, 56(%0)\n\t"
      :
      : "r"(&regs[0])
      : "rax", "memory");
  auto& snapshot = capture.snapshot;
  std::copy(std::begin(regs), std::end(regs), snapshot.registers.begin());
  snapshot.stack_start = snapshot.registers[PILLION_REG_RSP];
  snapshot.stack.resize(stack_high - snapshot.stack_start);
  if (!copy_memory(snapshot.stack_start, snapshot.stack)) snapshot.stack.clear();
  std::array<ExpectedFrame, 512> frames;
  const std::size_t count = backtrace_raw(frames);
  capture.expected.assign(frames.begin() + 1, frames.begin() + static_cast<std::ptrdiff_t>(count));
  locate(capture.expected);
}

std::string own_maps() {
  std::ifstream file("/proc/self/maps");
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

}  // namespace pillion::test
