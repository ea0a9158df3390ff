// SPDX-License-Identifier: Apache-2.0
#include "thread_start.h"

#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>

#include "system_calls.h"

namespace pillion::shim {
namespace {

constexpr std::size_t kGuardBytes = 4096;

// `stack`: null for one of libc's.
bool create(void* (*body)(void*), void* stack, std::size_t stack_bytes) {
  pthread_attr_t attributes;
  if (::pthread_attr_init(&attributes) != 0) return false;
  ::pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
  bool fits = true;
  if (stack != nullptr) {
    fits = ::pthread_attr_setstack(&attributes, stack, stack_bytes) == 0;
  } else if (stack_bytes != 0) {
    ::pthread_attr_setstacksize(&attributes, stack_bytes);
  }
  pthread_t thread;
  const bool made = fits && ::pthread_create(&thread, &attributes, body, nullptr) == 0;
  ::pthread_attr_destroy(&attributes);
  return made;
}

// sigfillset leaves libc's internal signals out; sigprocmask is the calling thread's mask on Linux, and
// unlike pthread_sigmask has been in libc itself for ever.
class SignalsBlocked {
 public:
  SignalsBlocked() {
    sigset_t all;
    ::sigfillset(&all);
    blocked_ = ::sigprocmask(SIG_SETMASK, &all, &before_) == 0;
  }
  ~SignalsBlocked() {
    if (blocked_) ::sigprocmask(SIG_SETMASK, &before_, nullptr);
  }
  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;
  [[nodiscard]] bool done() const { return blocked_; }

 private:
  sigset_t before_{};
  bool blocked_ = false;
};

}  // namespace

bool start_thread(void* (*body)(void*), std::size_t stack_bytes) {
  const SignalsBlocked blocked;
  if (!blocked.done()) return false;
  // A program with much static TLS needs more than any fixed size: glibc takes it from the stack.
  return create(body, nullptr, stack_bytes) || create(body, nullptr, 0);
}

bool start_thread_on(void* (*body)(void*), std::size_t stack_bytes, ThreadStack* stack) {
  stack->tid.store(0, std::memory_order_relaxed);
  const std::size_t whole = kGuardBytes + stack_bytes;
  void* memory = ::mmap(nullptr, whole, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
  if (memory != MAP_FAILED) {
    ::mprotect(memory, kGuardBytes, PROT_NONE);
    stack->base = memory;
    stack->bytes = whole;
    const SignalsBlocked blocked;
    if (blocked.done() && create(body, static_cast<char*>(memory) + kGuardBytes, stack_bytes)) return true;
    ::munmap(memory, whole);
  }
  stack->base = nullptr;
  return start_thread(body, stack_bytes);
}

void note_thread_start(ThreadStack* stack) { stack->tid.store(this_tid(), std::memory_order_release); }

bool thread_has_ended(const ThreadStack& stack) {
  const std::uint32_t tid = stack.tid.load(std::memory_order_acquire);
  return tid != 0 && thread_is_gone(tid);
}

void unmap_stack(ThreadStack* stack) {
  if (stack->base != nullptr && thread_has_ended(*stack)) ::munmap(stack->base, stack->bytes);
  stack->base = nullptr;
}

}  // namespace pillion::shim
