// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <span>
#include <string>

#include "workload.h"

// What the parts of the workload `adverse` share.
namespace adverse {

struct Action {
  const char* name;
  // True when it was done. Else errno says why. `argument` is what follows the name and a blank; empty:
  // nothing.
  bool (*run)(const std::string& argument);
};

// By subject; adverse.cpp looks through all of them.
std::span<const Action> signal_actions();
std::span<const Action> limit_actions();
std::span<const Action> descriptor_actions();
std::span<const Action> identity_actions();
std::span<const Action> filter_actions();
std::span<const Action> thread_actions();
std::span<const Action> child_actions();
std::span<const Action> exit_actions();

// The device, once cuInit has been called.
workload::Device& device();
// Launches on the calling thread, and waits until they have run. Any thread.
void launch(std::uint64_t count);
// Launches so far, of all threads.
std::uint64_t launches();
// One launch without waiting, on a stream of its own: for signal handlers.
void launch_in_handler();

// Signals that a handler of `count_signals` has seen: nobody sends any.
std::uint64_t signals_counted();
std::uint64_t timer_signals();
std::uint64_t faults_handled();
// System calls of the main loop that ended with EINTR.
extern std::atomic<std::uint64_t> interrupted;

// Whether the descriptors that `reuse_fds` made are still open, and hold what it wrote.
bool reused_descriptors_intact();

}  // namespace adverse
