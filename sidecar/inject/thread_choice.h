// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace pillion::inject {

// A thread that is asleep in a system call, as /proc/PID/task/TID/syscall tells it (proc(5)).
struct SleepingThread {
  std::uint32_t tid = 0;
  // False: that file may not be read, and only the wait channel is known: that an interruption of its sleep
  // goes unnoticed. What it sleeps in its registers say, once it is stopped.
  bool call_known = true;
  std::uint64_t number = 0;
  std::array<std::uint64_t, 6> arguments{};
  std::uint64_t stack_pointer = 0;
  std::uint64_t instruction = 0;
};

// Nothing for a thread that runs, or whose text is not of that form.
[[nodiscard]] std::optional<SleepingThread> parse_syscall_text(std::string_view text);

// How well a thread may be borrowed: 0 not at all, else the higher the better. What it sleeps in decides: a
// thread inside malloc or the dynamic linker must not be asked to create a thread, and one that would see
// EINTR is the last choice.
[[nodiscard]] unsigned suitability(const SleepingThread& thread);

// The threads of `pid` that may be borrowed, the best first. Needs the right to trace the process.
[[nodiscard]] std::vector<SleepingThread> sleeping_threads(const std::string& proc_root, std::uint32_t pid);

// Whether the whole process is stopped by a signal (SIGSTOP, a shell's job control).
[[nodiscard]] bool is_stopped(const std::string& proc_root, std::uint32_t pid);

// Whether the stack that `stack_pointer` is on has `bytes` below it, by the text of /proc/PID/maps. The main
// thread's grows by itself.
[[nodiscard]] bool stack_has_room(std::string_view maps, std::uint64_t stack_pointer, std::uint64_t bytes);

}  // namespace pillion::inject
