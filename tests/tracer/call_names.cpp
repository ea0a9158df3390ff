// SPDX-License-Identifier: Apache-2.0
#include "call_names.h"

#include <sys/syscall.h>

namespace tracer {
namespace {

struct Call {
  std::uint64_t number;
  const char* name;
};

#define PAIR(name) \
  { SYS_##name, #name }
constexpr Call kCalls[] = {PAIR(accept4),
                           PAIR(access),
                           PAIR(bind),
                           PAIR(brk),
                           PAIR(chmod),
                           PAIR(fchmodat),
                           PAIR(clock_nanosleep),
                           PAIR(clone),
                           PAIR(clone3),
                           PAIR(close),
                           PAIR(connect),
                           PAIR(epoll_create1),
                           PAIR(epoll_ctl),
                           PAIR(epoll_pwait),
                           PAIR(epoll_wait),
                           PAIR(eventfd2),
                           PAIR(exit),
                           PAIR(fcntl),
                           PAIR(fstat),
                           PAIR(ftruncate),
                           PAIR(futex),
                           PAIR(getdents64),
                           PAIR(geteuid),
                           PAIR(getpid),
                           PAIR(getrandom),
                           PAIR(getsockname),
                           PAIR(getsockopt),
                           PAIR(gettid),
                           PAIR(getuid),
                           PAIR(inotify_add_watch),
                           PAIR(inotify_rm_watch),
                           PAIR(listen),
                           PAIR(lseek),
                           PAIR(madvise),
                           PAIR(memfd_create),
                           PAIR(mmap),
                           PAIR(mprotect),
                           PAIR(mremap),
                           PAIR(munmap),
                           PAIR(nanosleep),
                           PAIR(newfstatat),
                           PAIR(open),
                           PAIR(openat),
                           PAIR(poll),
                           PAIR(prctl),
                           PAIR(pread64),
                           PAIR(process_vm_readv),
                           PAIR(read),
                           PAIR(readlink),
                           PAIR(recvfrom),
                           PAIR(recvmsg),
                           PAIR(rename),
                           PAIR(renameat),
                           PAIR(rseq),
                           PAIR(rt_sigprocmask),
                           PAIR(sched_getaffinity),
                           PAIR(sendmsg),
                           PAIR(set_robust_list),
                           PAIR(setsockopt),
                           PAIR(sigaltstack),
                           PAIR(socket),
                           PAIR(statx),
                           PAIR(tgkill),
                           PAIR(timerfd_settime),
                           PAIR(unlinkat),
                           PAIR(write)};
#undef PAIR

}  // namespace

std::string call_name(std::uint64_t number) {
  for (const Call& call : kCalls) {
    if (call.number == number) return call.name;
  }
  return std::to_string(number);
}

}  // namespace tracer
