// SPDX-License-Identifier: Apache-2.0
#include "readable_pages.h"

#include <sys/uio.h>

#include <cerrno>

#include "system_calls.h"
#include "thread_state.h"

namespace pillion::shim {

[[gnu::noinline, gnu::cold]] bool ReadablePages::look(std::atomic<std::uint64_t>* set, std::uint64_t page) {
  std::uint8_t byte = 0;
  const iovec local{&byte, 1};
  const iovec remote{reinterpret_cast<void*>(page * kPage), 1};
  const int saved_errno = errno;
  const long got = ::syscall(SYS_process_vm_readv, own_tid(), &local, 1UL, &remote, 1UL, 0UL);
  errno = saved_errno;
  if (got != 1) return false;
  for (std::size_t way = 0; way < kWays; ++way) {
    std::uint64_t seen = 0;
    if (set[way].compare_exchange_strong(seen, page, std::memory_order_relaxed)) return true;
  }
  // Full: one has to go, and neighbouring pages should not push each other out.
  set[(page >> 3) % kWays].store(page, std::memory_order_relaxed);
  return true;
}

void ReadablePages::forget() {
  static constinit std::atomic<std::uint64_t> generations{0};
  for (auto& set : sets_) {
    for (std::atomic<std::uint64_t>& page : set) page.store(0, std::memory_order_relaxed);
  }
  // After them: nobody hears the new number and an old page. Pairs with the acquire load of generation().
  generation_.store(generations.fetch_add(1, std::memory_order_relaxed) + 1, std::memory_order_release);
}

}  // namespace pillion::shim
