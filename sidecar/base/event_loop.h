// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/result.h"
#include "base/unique_fd.h"

namespace pillion {

// One thread waiting for file descriptors, timers and work from other threads (epoll, eventfd). Everything
// that the loop calls runs on the thread that is in run(), one call after the other. Only post(), stop() and
// in_loop_thread() may be called from another thread; the rest before run() or from inside a callback.
class EventLoop {
 public:
  using FdCallback = std::function<void(std::uint32_t epoll_events)>;
  using Task = std::function<void()>;
  using TimerId = std::uint64_t;  // from 1, never reused
  static constexpr std::size_t kPostedMax = 65'536;

  [[nodiscard]] static Result<std::unique_ptr<EventLoop>> create();
  ~EventLoop() = default;
  EventLoop(const EventLoop&) = delete;
  EventLoop& operator=(const EventLoop&) = delete;

  // Level-triggered. The fd stays the caller's: unwatch before closing it. One callback per fd.
  [[nodiscard]] Result<void> watch(int fd, std::uint32_t epoll_events, FdCallback callback);
  [[nodiscard]] Result<void> modify(int fd, std::uint32_t epoll_events);
  void unwatch(int fd);  // no call for this fd after it, not even one already fetched from the kernel

  // Timers are of millisecond precision and never early. every() skips the beats it missed.
  TimerId after(std::chrono::nanoseconds delay, Task task);
  TimerId every(std::chrono::nanoseconds period, Task task);
  void cancel(TimerId timer);  // unknown, finished and 0: nothing happens

  // Thread-safe. False when the loop has been stopped or kPostedMax tasks wait: the task will not run.
  [[nodiscard]] bool post(Task task);

  void run();   // until stop(); at once when stop() came first
  void stop();  // thread-safe, final; posted tasks that have not run are dropped

  // One round, for tests and for callers with a loop of their own: waits at most `timeout` for something to
  // do. Returns whether anything ran.
  bool run_once(std::chrono::nanoseconds timeout);

  [[nodiscard]] bool in_loop_thread() const { return thread_.load() == std::this_thread::get_id(); }

 private:
  struct Watch {
    int fd;
    FdCallback callback;
  };
  struct Timer {
    std::uint64_t due_ns;
    std::uint64_t period_ns;  // 0: once
    Task task;
  };

  EventLoop(UniqueFd epoll, UniqueFd wakeup) : epoll_(std::move(epoll)), wakeup_(std::move(wakeup)) {}
  TimerId add_timer(std::chrono::nanoseconds delay, std::uint64_t period_ns, Task task);
  [[nodiscard]] int wait_ms(std::chrono::nanoseconds timeout) const;
  std::size_t run_posted();
  std::size_t run_timers();

  UniqueFd epoll_;
  UniqueFd wakeup_;
  std::unordered_map<int, std::uint64_t> watch_of_fd_;
  // By number, not by fd: an event that was fetched for a closed fd never reaches the next owner of its
  // number.
  std::unordered_map<std::uint64_t, std::shared_ptr<Watch>> watches_;
  std::uint64_t next_watch_ = 1;
  std::map<TimerId, Timer> timers_;
  std::set<std::pair<std::uint64_t, TimerId>> due_;
  TimerId next_timer_ = 1;

  std::mutex mutex_;
  std::vector<Task> posted_;  // under mutex_
  std::atomic<bool> stopped_{false};
  std::atomic<std::thread::id> thread_{};
};

}  // namespace pillion
