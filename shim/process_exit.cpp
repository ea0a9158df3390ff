// SPDX-License-Identifier: Apache-2.0
#include "process_exit.h"

#include <stdlib.h>

#include <atomic>
#include <cstdint>

#include "control_thread.h"
#include "system_calls.h"

namespace pillion::shim {
namespace {

constexpr std::uint32_t kExitWaitMs = 200;
constexpr std::uint32_t kRegistrationsMax = 16;  // by then CUPTI has registered all that it ever will

std::atomic<std::uint32_t> owner_pid{0};
std::atomic<std::uint32_t> registrations{0};

// Threads of the program may go on launching meanwhile.
void at_exit() {
  // A child without atfork handlers (raw clone) has this handler, but neither thread nor socket of its own.
  if (this_pid() == owner_pid.load(std::memory_order_relaxed)) stop_for_exit(kExitWaitMs);
}

}  // namespace

void expect_exit() {
  if (registrations.fetch_add(1, std::memory_order_relaxed) >= kRegistrationsMax) return;
  owner_pid.store(this_pid(), std::memory_order_relaxed);
  ::atexit(at_exit);
  ::at_quick_exit(at_exit);
}

void forget_exit_in_child() { owner_pid.store(0, std::memory_order_relaxed); }

}  // namespace pillion::shim
