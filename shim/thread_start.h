// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace pillion::shim {

// Starts a detached thread with every signal blocked except libc's two internal ones, which setuid() of the
// program needs answered by all threads. `stack_bytes`: a wish. False when no thread can be made. Control
// side and whoever runs InitializeInjection.
[[nodiscard]] bool start_thread(void* (*body)(void*), std::size_t stack_bytes);

// A stack that is mapped for one thread and unmapped after it: libc keeps those that it makes for later
// threads.
struct ThreadStack {
  void* base = nullptr;
  std::size_t bytes = 0;
  std::atomic<std::uint32_t> tid{0};  // 0 until the thread runs
};

// As start_thread(), on a stack of its own where one can be mapped, else on libc's. The body calls
// note_thread_start() first.
[[nodiscard]] bool start_thread_on(void* (*body)(void*), std::size_t stack_bytes, ThreadStack* stack);
void note_thread_start(ThreadStack* stack);

// Whether the thread has run and is gone from the process.
[[nodiscard]] bool thread_has_ended(const ThreadStack& stack);

// Unmaps the stack of a thread that has ended; of one that has not it is left for good.
void unmap_stack(ThreadStack* stack);

}  // namespace pillion::shim
