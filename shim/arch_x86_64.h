// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cpuid.h>
#include <emmintrin.h>
#include <x86intrin.h>

#include <cstddef>
#include <cstdint>

#include "abi/pillion_abi.h"

// All that the capture side knows about the processor. A port adds a file of the same functions (arm64: x29,
// x30, sp, x19-x28; ldnp/stnp; dmb ishst) and a register list in the wire.
namespace pillion::shim::arch {

// The registers that unwinding starts from, as they are at one instruction of the caller, which must not be
// inlined away: its frame is the snapshot's top one.
[[gnu::always_inline]] inline void capture_registers(std::uint64_t (&out)[PILLION_REG_COUNT]) {
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
      : "D"(out)
      : "rax", "memory");
}

// Where the thread's control block lies: at the top of the stack mapping of every thread that glibc made.
[[gnu::always_inline]] inline std::uint64_t thread_pointer() {
  std::uint64_t value = 0;
  asm("movq %%fs:0, %0"
      : "=r"(value));  // the first word of the block is its own address (ELF TLS, variant II)
  return value;
}

// Past the caches into memory that another core reads: `to` and `bytes` are multiples of 8. The copy is
// weakly ordered: store_fence() before anything that publishes it. Not instrumented: a stack's red zones are
// read too.
[[gnu::no_sanitize("address", "thread")]] inline void copy_past_caches(std::uint8_t* to,
                                                                       const std::uint8_t* from,
                                                                       std::size_t bytes) {
  if ((reinterpret_cast<std::uintptr_t>(to) & 8) != 0 && bytes >= 8) {
    long long word = 0;
    __builtin_memcpy(&word, from, 8);
    _mm_stream_si64(reinterpret_cast<long long*>(to), word);
    to += 8;
    from += 8;
    bytes -= 8;
  }
  for (; bytes >= 64; to += 64, from += 64, bytes -= 64) {
    const auto* source = reinterpret_cast<const __m128i*>(from);
    auto* target = reinterpret_cast<__m128i*>(to);
    const __m128i first = _mm_loadu_si128(source);
    const __m128i second = _mm_loadu_si128(source + 1);
    const __m128i third = _mm_loadu_si128(source + 2);
    const __m128i fourth = _mm_loadu_si128(source + 3);
    _mm_stream_si128(target, first);
    _mm_stream_si128(target + 1, second);
    _mm_stream_si128(target + 2, third);
    _mm_stream_si128(target + 3, fourth);
  }
  for (; bytes >= 8; to += 8, from += 8, bytes -= 8) {
    long long word = 0;
    __builtin_memcpy(&word, from, 8);
    _mm_stream_si64(reinterpret_cast<long long*>(to), word);
  }
}

inline void store_fence() { _mm_sfence(); }

inline constexpr std::uint64_t kStackAlignment = 16;

// A counter of the processor's that is cheap to read.
[[gnu::always_inline]] inline std::uint64_t ticks() { return __rdtsc(); }

// Whether the processor says that it counts at one pace whatever its state (invariant TSC: Intel
// SDM 17.17.1).
inline bool ticks_are_steady() {
  constexpr unsigned kPowerManagement = 0x8000'0007u;
  constexpr unsigned kInvariantTsc = 1u << 8;
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __get_cpuid(kPowerManagement, &a, &b, &c, &d) != 0 && (d & kInvariantTsc) != 0;
}

}  // namespace pillion::shim::arch
