// SPDX-License-Identifier: Apache-2.0
#include "inject/thread_choice.h"

#include <dirent.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <memory>

#include "inject/proc_text.h"
#include "inject/wait_channel.h"

namespace pillion::inject {
namespace {

constexpr std::size_t kThreadsMax = 4'096;

bool take_number(std::string_view& text, std::uint64_t& number, int base) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  if (base == 16) {
    if (!text.starts_with("0x")) return false;
    text.remove_prefix(2);
  }
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number, base);
  if (error != std::errc{}) return false;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return true;
}

// FUTEX_WAIT is how glibc's low-level locks sleep, malloc's among them, with the value 2. Condition
// variables, semaphores and joins use WAIT_BITSET.
unsigned futex_suitability(const SleepingThread& thread) {
  constexpr std::uint64_t kLockWord = 2;
  const auto command = thread.arguments[1] & static_cast<std::uint64_t>(FUTEX_CMD_MASK);
  if (command == FUTEX_WAIT_BITSET) return 80;
  return command == FUTEX_WAIT && thread.arguments[2] != kLockWord ? 60 : 0;
}

// Field 3 of a stat file, '?' when it is not there.
char state_of(const std::string& folder) {
  const std::string stat = read_proc_text(folder + "/stat");
  const std::size_t behind_name = stat.rfind(") ");
  return behind_name != std::string::npos && behind_name + 2 < stat.size() ? stat[behind_name + 2] : '?';
}

std::optional<SleepingThread> look_at_thread(const std::string& task) {
  const std::string call = task + "/syscall";
  if (::access(call.c_str(), R_OK) == 0 || errno != EACCES) return parse_syscall_text(read_proc_text(call));
  if (!restarts_unnoticed(read_proc_text(task + "/wchan"))) return std::nullopt;
  SleepingThread thread;
  thread.call_known = false;
  return thread;
}

struct CloseDirectory {
  void operator()(DIR* directory) const { ::closedir(directory); }
};

}  // namespace

std::optional<SleepingThread> parse_syscall_text(std::string_view text) {
  SleepingThread thread;
  if (!take_number(text, thread.number, 10)) return std::nullopt;  // "running", or "-1 0x... 0x..."
  for (std::uint64_t& argument : thread.arguments) {
    if (!take_number(text, argument, 16)) return std::nullopt;
  }
  if (!take_number(text, thread.stack_pointer, 16) || !take_number(text, thread.instruction, 16))
    return std::nullopt;
  return thread;
}

unsigned suitability(const SleepingThread& thread) {
  if (!thread.call_known) return 10;
  switch (thread.number) {
    // Restarted by the kernel so that nobody notices.
    case SYS_nanosleep:
    case SYS_clock_nanosleep:
      return 100;
    case SYS_poll:
    case SYS_ppoll:
    case SYS_select:
    case SYS_pselect6:
      return 90;
    case SYS_futex:
      return futex_suitability(thread);
    case SYS_wait4:
    case SYS_waitid:
    case SYS_rt_sigsuspend:
    case SYS_pause:
      return 70;
    case SYS_read:
      return 50;
    // EINTR would come up to the program: the call is begun anew (repair_interrupted).
    case SYS_recvfrom:
    case SYS_recvmsg:
    case SYS_accept:
    case SYS_accept4:
      return 40;
    case SYS_epoll_wait:
    case SYS_epoll_pwait:
    case SYS_rt_sigtimedwait:
    case SYS_semtimedop:
    case SYS_io_getevents:
      return 20;
    default:
      return 0;
  }
}

std::vector<SleepingThread> sleeping_threads(const std::string& proc_root, std::uint32_t pid) {
  std::vector<SleepingThread> threads;
  const std::string folder = proc_root + "/" + std::to_string(pid) + "/task";
  const std::unique_ptr<DIR, CloseDirectory> tasks(::opendir(folder.c_str()));
  if (!tasks) return threads;
  std::size_t seen = 0;
  while (const dirent* entry = ::readdir(tasks.get())) {
    if (entry->d_name[0] == '.' || ++seen > kThreadsMax) continue;
    const std::string task = folder + "/" + entry->d_name;
    auto thread = look_at_thread(task);
    if (!thread || suitability(*thread) == 0 || state_of(task) != 'S') continue;
    thread->tid = static_cast<std::uint32_t>(std::strtoul(entry->d_name, nullptr, 10));
    threads.push_back(*thread);
  }
  std::stable_sort(threads.begin(), threads.end(),
                   [](const SleepingThread& left, const SleepingThread& right) {
                     return suitability(left) > suitability(right);
                   });
  return threads;
}

bool is_stopped(const std::string& proc_root, std::uint32_t pid) {
  return state_of(proc_root + "/" + std::to_string(pid)) == 'T';
}

bool stack_has_room(std::string_view maps, std::uint64_t stack_pointer, std::uint64_t bytes) {
  while (!maps.empty()) {
    const std::size_t end = std::min(maps.find('\n'), maps.size());
    const std::string_view line = maps.substr(0, end);
    maps.remove_prefix(std::min(end + 1, maps.size()));
    std::uint64_t low = 0;
    std::uint64_t high = 0;
    const char* last = line.data() + line.size();
    const auto first = std::from_chars(line.data(), last, low, 16);
    if (first.ec != std::errc{} || first.ptr == last) continue;
    const auto second = std::from_chars(first.ptr + 1, last, high, 16);
    if (second.ec != std::errc{} || stack_pointer < low || stack_pointer >= high) continue;
    const bool writable = last - second.ptr > 3 && second.ptr[1] == 'r' && second.ptr[2] == 'w';
    return writable && (line.ends_with("[stack]") || stack_pointer - low >= bytes);
  }
  return false;
}

}  // namespace pillion::inject
