// SPDX-License-Identifier: Apache-2.0
#include "thread_start.h"

#include <pthread.h>
#include <signal.h>

namespace pillion::shim {
namespace {

bool create(void* (*body)(void*), std::size_t stack_bytes) {
  pthread_attr_t attributes;
  if (::pthread_attr_init(&attributes) != 0) return false;
  ::pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
  if (stack_bytes != 0) ::pthread_attr_setstacksize(&attributes, stack_bytes);
  pthread_t thread;
  const bool made = ::pthread_create(&thread, &attributes, body, nullptr) == 0;
  ::pthread_attr_destroy(&attributes);
  return made;
}

}  // namespace

bool start_thread(void* (*body)(void*), std::size_t stack_bytes) {
  // sigfillset leaves libc's internal signals out; sigprocmask is the calling thread's mask on Linux, and
  // unlike pthread_sigmask has been in libc itself for ever.
  sigset_t all;
  sigset_t before;
  ::sigfillset(&all);
  if (::sigprocmask(SIG_SETMASK, &all, &before) != 0) return false;
  // A program with much static TLS needs more than any fixed size: glibc takes it from the stack.
  const bool made = create(body, stack_bytes) || create(body, 0);
  ::sigprocmask(SIG_SETMASK, &before, nullptr);
  return made;
}

}  // namespace pillion::shim
