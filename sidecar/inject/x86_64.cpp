// SPDX-License-Identifier: Apache-2.0
#include "inject/x86_64.h"

#include <sys/syscall.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

// Position-independent, no stack protector, no library call. `loader` is what pthread_create starts with the
// code page's address; its data (rbp) is struct LoaderData. `creator` is what the borrowed thread runs.
asm(R"(
        .pushsection .rodata
        .balign 16
pillion_loader_begin:
        push %rbx
        push %rbp
        push %r12
        mov %rdi, %rbx
        mov $9, %eax                    # mmap the data
        xor %edi, %edi
        mov $12288, %esi
        mov $3, %edx
        mov $1, %r10d
        mov 0xf00(%rbx), %r8
        mov $4096, %r9d
        syscall
        cmp $-4096, %rax
        ja 9f
        mov %rax, %rbp
        mov %rax, 152(%rbp)
        mov 0xf10(%rbx), %rax           # pthread_detach(pthread_self())
        test %rax, %rax
        jz 1f
        mov %fs:0x10, %rdi
        call *%rax
1:      mov (%rbp), %edx
        cmp $1, %edx
        je 2f
        cmp $3, %edx
        je 6f
        mov %rbp, %rdi                  # futex wait, shared
        xor %esi, %esi
        lea 88(%rbp), %r10
        mov $202, %eax
        syscall
        cmp $-110, %rax
        jne 1b
        mov (%rbp), %eax                # nobody asked for so long
        cmp $1, %eax
        je 2f
        cmp $3, %eax
        je 6f
        mov $4, %ecx
        lock cmpxchg %ecx, (%rbp)
        jne 1b
        jmp 7f
2:      mov 24(%rbp), %rdi
        mov 32(%rbp), %rsi
        mov 40(%rbp), %rdx
        mov 48(%rbp), %rcx
        mov 56(%rbp), %r8
        mov 64(%rbp), %r9
        mov 8(%rbp), %r12
        test %r12, %r12
        jz 3f
        xor %eax, %eax
        call *%r12
        jmp 4f
3:      mov %rcx, %r10
        mov 16(%rbp), %rax
        syscall
4:      mov %rax, 72(%rbp)
        mov 80(%rbp), %rcx
        mov %rax, (%rbp, %rcx)
        mov $2, %ecx
        mov $1, %eax
        lock cmpxchg %ecx, (%rbp)
        mov $202, %eax                  # futex wake
        mov %rbp, %rdi
        mov $1, %esi
        mov $0x7fffffff, %edx
        syscall
        jmp 1b
6:      mov $4, %eax
        xchg %eax, (%rbp)
        mov $202, %eax
        mov %rbp, %rdi
        mov $1, %esi
        mov $0x7fffffff, %edx
        syscall
7:      lea 104(%rbp), %r12             # close what is kept
8:      mov (%r12), %rdi
        test %rdi, %rdi
        js 5f
        mov $3, %eax
        syscall
5:      add $8, %r12
        lea 152(%rbp), %rax
        cmp %rax, %r12
        jne 8b
        mov $11, %eax                   # munmap the data
        mov %rbp, %rdi
        mov $12288, %esi
        syscall
9:      mov 0xf00(%rbx), %rdi
        mov $3, %eax
        syscall
        mov 0xf08(%rbx), %rax           # munmap(code) returns to whoever called us: this page is gone by then
        mov %rbx, %rdi
        mov $4096, %esi
        pop %r12
        pop %rbp
        pop %rbx
        jmp *%rax
        .balign 16
pillion_creator:
        call *%rax
        mov %rax, %rbx
        mov $14, %eax                   # rt_sigprocmask that asks nothing: the tracer sees it
        xor %edi, %edi
        xor %esi, %esi
        xor %edx, %edx
        mov $8, %r10d
        syscall
pillion_created:
        mov $15, %eax                   # rt_sigreturn
        syscall
        ud2
pillion_loader_end:
        .popsection
)");

extern "C" {
extern const std::byte pillion_loader_begin[];
extern const std::byte pillion_creator[];
extern const std::byte pillion_created[];
extern const std::byte pillion_loader_end[];
}

namespace pillion::inject {
namespace {

constexpr std::uint64_t kRedZone = 128;
constexpr std::uint64_t kTextBytes = 192;
constexpr std::uint64_t kSyscallBytes = 2;
constexpr std::uint64_t kDirection = 1u << 10;  // DF in eflags
constexpr std::int64_t kRestartFirst = -516;    // ERESTART_RESTARTBLOCK; include/linux/errno.h
constexpr std::int64_t kRestartLast = -512;     // ERESTARTSYS

// The kernel's struct ucontext (arch/x86/include/uapi/asm/ucontext.h, sigcontext.h).
struct KernelContext {
  std::uint64_t flags;
  std::uint64_t link;
  std::uint64_t stack_pointer;
  std::uint32_t stack_flags;
  std::uint32_t padding;
  std::uint64_t stack_bytes;
  std::uint64_t r8, r9, r10, r11, r12, r13, r14, r15;
  std::uint64_t rdi, rsi, rbp, rbx, rdx, rax, rcx, rsp, rip, eflags;
  std::uint16_t cs, gs, fs, ss;
  std::uint64_t error, trap, old_mask, cr2;
  std::uint64_t extended;
  std::uint64_t reserved[8];
  std::uint64_t mask;
};
static_assert(sizeof(KernelContext) == 40 + 256 + 8);

constexpr std::uint64_t kSignalInfoBytes = 128;

// Tells the kernel what the vector state is made of: struct _fpx_sw_bytes, within the legacy area.
void describe_extended(std::byte* area, std::size_t bytes) {
  constexpr std::size_t kSoftwareOffset = 464;
  constexpr std::uint32_t kMagic1 = 0x46505853;
  constexpr std::uint32_t kMagic2 = 0x46505845;
  std::uint64_t features = 0;
  std::memcpy(&features, area + kSoftwareOffset, sizeof features);  // as the register set gives them
  struct {
    std::uint32_t magic1, extended_bytes;
    std::uint64_t features;
    std::uint32_t bytes, padding[7];
  } software{kMagic1,
             static_cast<std::uint32_t>(bytes + sizeof kMagic2),
             features,
             static_cast<std::uint32_t>(bytes),
             {}};
  static_assert(sizeof software == 48);
  std::memcpy(area + kSoftwareOffset, &software, sizeof software);
  std::memcpy(area + bytes, &kMagic2, sizeof kMagic2);
}

// rt_sigreturn restarts nothing by itself: a call that the kernel would have restarted is begun anew.
Registers for_sigreturn(Registers registers) {
  const auto result = static_cast<std::int64_t>(registers.rax);
  if (interrupted_call(registers) < 0 || result < kRestartFirst || result > kRestartLast) return registers;
  registers.rax = registers.orig_rax;
  registers.rip -= kSyscallBytes;
  return registers;
}

KernelContext context_of(const ThreadImage& image, std::uint64_t extended) {
  constexpr std::uint64_t kFlags = 0x7;           // vector state is there, ss is right
  constexpr std::uint32_t kNoStackMode = 0x7fff;  // refused by sigaltstack, which so leaves it as it is
  const Registers from = for_sigreturn(image.registers);
  KernelContext to{};
  to.flags = kFlags;
  to.stack_flags = kNoStackMode;
  to.r8 = from.r8, to.r9 = from.r9, to.r10 = from.r10, to.r11 = from.r11;
  to.r12 = from.r12, to.r13 = from.r13, to.r14 = from.r14, to.r15 = from.r15;
  to.rdi = from.rdi, to.rsi = from.rsi, to.rbp = from.rbp, to.rbx = from.rbx;
  to.rdx = from.rdx, to.rax = from.rax, to.rcx = from.rcx, to.rsp = from.rsp;
  to.rip = from.rip, to.eflags = from.eflags;
  to.cs = static_cast<std::uint16_t>(from.cs);
  to.ss = static_cast<std::uint16_t>(from.ss);
  to.extended = extended;
  to.mask = image.signal_mask;
  return to;
}

}  // namespace

std::int64_t interrupted_call(const Registers& registers) {
  return static_cast<std::int64_t>(registers.orig_rax);
}

SleepingThread call_of(std::uint32_t tid, const Registers& registers) {
  SleepingThread thread;
  thread.tid = tid;
  thread.number = registers.orig_rax;
  thread.arguments = {registers.rdi, registers.rsi, registers.rdx, registers.r10, registers.r8, registers.r9};
  thread.stack_pointer = registers.rsp;
  thread.instruction = registers.rip;
  return thread;
}

Registers repair_interrupted(Registers registers, bool signal_pending) {
  if (interrupted_call(registers) < 0 || static_cast<std::int64_t>(registers.rax) != -EINTR ||
      signal_pending) {
    return registers;
  }
  registers.rax = registers.orig_rax;
  registers.rip -= kSyscallBytes;
  registers.orig_rax = ~0ULL;
  return registers;
}

WayBack::WayBack(const ThreadImage& image, const TargetFunctions& functions)
    : base_(image.registers), functions_(functions) {
  const std::uint64_t top = (image.registers.rsp - kRedZone) & ~63ULL;
  text_ = top - kTextBytes;
  const std::size_t extended_bytes = image.extended.size();
  const std::uint64_t extended = extended_bytes == 0 ? 0 : (text_ - extended_bytes - 64) & ~63ULL;
  frame_ = ((extended == 0 ? text_ : extended) - sizeof(KernelContext) - kSignalInfoBytes) & ~63ULL;
  address_ = frame_ - sizeof(std::uint64_t);
  bytes_.resize(top - address_);
  std::memcpy(bytes_.data(), &functions.sigreturn, sizeof functions.sigreturn);
  const KernelContext context = context_of(image, extended);
  std::memcpy(bytes_.data() + (frame_ - address_), &context, sizeof context);
  if (extended == 0) return;
  std::byte* area = bytes_.data() + (extended - address_);
  std::memcpy(area, image.extended.data(), extended_bytes);
  describe_extended(area, extended_bytes);
}

void WayBack::set_text(const char* text) {
  std::memcpy(bytes_.data() + (text_ - address_), text, std::min<std::size_t>(std::strlen(text) + 1, 127));
}

Registers WayBack::system_call(std::int64_t number, const std::array<std::uint64_t, 6>& arguments) const {
  Registers registers = base_;
  registers.rip = functions_.syscall_instruction;
  registers.rsp = address_;  // what follows the instruction returns to sigreturn
  registers.rax = static_cast<std::uint64_t>(number);
  registers.orig_rax = ~0ULL;
  registers.rdi = arguments[0];
  registers.rsi = arguments[1];
  registers.rdx = arguments[2];
  registers.r10 = arguments[3];
  registers.r8 = arguments[4];
  registers.r9 = arguments[5];
  registers.eflags &= ~kDirection;
  return registers;
}

Registers WayBack::create_loader(std::uint64_t code) const {
  Registers registers = base_;
  registers.rip = code + static_cast<std::uint64_t>(pillion_creator - pillion_loader_begin);
  registers.rsp = frame_;
  registers.rax = functions_.pthread_create;
  registers.orig_rax = ~0ULL;
  registers.rdi = thread_slot();
  registers.rsi = 0;
  registers.rdx = code;
  registers.rcx = code;
  registers.eflags &= ~kDirection;
  return registers;
}

bool loader_created(const Registers& registers, std::uint64_t code, std::int64_t* result) {
  if (registers.rip != code + static_cast<std::uint64_t>(pillion_created - pillion_loader_begin))
    return false;
  *result = static_cast<std::int64_t>(registers.rbx);
  return true;
}

std::span<const std::byte> loader_code() { return {pillion_loader_begin, pillion_loader_end}; }

}  // namespace pillion::inject
