// SPDX-License-Identifier: Apache-2.0
#include "base/event_loop.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <array>
#include <limits>

#include "base/clock.h"

namespace pillion {
namespace {

constexpr std::uint64_t kWakeup = 0;  // watch number of the eventfd
constexpr int kEventsPerRound = 64;

}  // namespace

Result<std::unique_ptr<EventLoop>> EventLoop::create() {
  UniqueFd epoll(::epoll_create1(EPOLL_CLOEXEC));
  if (!epoll.valid()) return fail_errno("create epoll", "");
  UniqueFd wakeup(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!wakeup.valid()) return fail_errno("create eventfd", "");
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.u64 = kWakeup;
  if (::epoll_ctl(epoll.get(), EPOLL_CTL_ADD, wakeup.get(), &event) != 0)
    return fail_errno("watch", "eventfd");
  return std::unique_ptr<EventLoop>(new EventLoop(std::move(epoll), std::move(wakeup)));
}

Result<void> EventLoop::watch(int fd, std::uint32_t epoll_events, FdCallback callback) {
  const std::uint64_t number = next_watch_++;
  epoll_event event{};
  event.events = epoll_events;
  event.data.u64 = number;
  if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) != 0) {
    return fail_errno("watch", "fd " + std::to_string(fd));
  }
  watch_of_fd_[fd] = number;
  watches_[number] = std::make_shared<Watch>(Watch{fd, std::move(callback)});
  return {};
}

Result<void> EventLoop::modify(int fd, std::uint32_t epoll_events) {
  const auto found = watch_of_fd_.find(fd);
  if (found == watch_of_fd_.end()) return fail("modify watch", "fd " + std::to_string(fd), "not watched");
  epoll_event event{};
  event.events = epoll_events;
  event.data.u64 = found->second;
  if (::epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, fd, &event) != 0) {
    return fail_errno("modify watch", "fd " + std::to_string(fd));
  }
  return {};
}

void EventLoop::unwatch(int fd) {
  const auto found = watch_of_fd_.find(fd);
  if (found == watch_of_fd_.end()) return;
  ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, fd, nullptr);
  watches_.erase(found->second);
  watch_of_fd_.erase(found);
}

EventLoop::TimerId EventLoop::add_timer(std::chrono::nanoseconds delay, std::uint64_t period_ns, Task task) {
  const TimerId timer = next_timer_++;
  const auto wait = static_cast<std::uint64_t>(std::max<std::int64_t>(delay.count(), 0));
  const std::uint64_t due_ns = monotonic_ns() + wait;
  timers_.emplace(timer, Timer{due_ns, period_ns, std::move(task)});
  due_.emplace(due_ns, timer);
  return timer;
}

EventLoop::TimerId EventLoop::after(std::chrono::nanoseconds delay, Task task) {
  return add_timer(delay, 0, std::move(task));
}

EventLoop::TimerId EventLoop::every(std::chrono::nanoseconds period, Task task) {
  const auto beat = std::max(period, std::chrono::nanoseconds(std::chrono::milliseconds(1)));
  return add_timer(beat, static_cast<std::uint64_t>(beat.count()), std::move(task));
}

void EventLoop::cancel(TimerId timer) {
  const auto found = timers_.find(timer);
  if (found == timers_.end()) return;
  due_.erase({found->second.due_ns, timer});
  timers_.erase(found);
}

bool EventLoop::post(Task task) {
  {
    const std::lock_guard lock(mutex_);
    if (stopped_.load() || posted_.size() >= kPostedMax) return false;
    posted_.push_back(std::move(task));
  }
  const std::uint64_t one = 1;
  (void)!::write(wakeup_.get(), &one, sizeof(one));
  return true;
}

void EventLoop::stop() {
  {
    const std::lock_guard lock(mutex_);
    stopped_.store(true);
  }
  const std::uint64_t one = 1;
  (void)!::write(wakeup_.get(), &one, sizeof(one));
}

void EventLoop::run() {
  thread_.store(std::this_thread::get_id());
  while (!stopped_.load()) (void)run_once(std::chrono::hours(1));
  thread_.store(std::thread::id{});
  std::vector<Task> dropped;
  const std::lock_guard lock(mutex_);
  dropped.swap(posted_);
}

int EventLoop::wait_ms(std::chrono::nanoseconds timeout) const {
  auto wait = static_cast<std::uint64_t>(std::max<std::int64_t>(timeout.count(), 0));
  if (!due_.empty()) {
    const std::uint64_t now = monotonic_ns();
    const std::uint64_t due = due_.begin()->first;
    wait = std::min(wait, due > now ? due - now : 0);
  }
  const std::uint64_t rounded_up = (wait + 999'999) / 1'000'000;
  return static_cast<int>(std::min<std::uint64_t>(rounded_up, std::numeric_limits<int>::max()));
}

bool EventLoop::run_once(std::chrono::nanoseconds timeout) {
  std::array<epoll_event, kEventsPerRound> events{};
  const int count = ::epoll_wait(epoll_.get(), events.data(), kEventsPerRound, wait_ms(timeout));
  std::size_t ran = 0;
  for (int i = 0; i < count && !stopped_.load(); ++i) {
    const epoll_event event = events[static_cast<std::size_t>(i)];
    const std::uint64_t number = event.data.u64;  // the struct is packed: no reference into it
    if (number == kWakeup) {
      std::uint64_t sum = 0;
      (void)!::read(wakeup_.get(), &sum, sizeof(sum));
      continue;
    }
    const auto found = watches_.find(number);
    if (found == watches_.end()) continue;
    const auto kept = found->second;  // a callback may unwatch itself
    kept->callback(event.events);
    ++ran;
  }
  ran += run_posted();
  ran += run_timers();
  return ran > 0;
}

std::size_t EventLoop::run_posted() {
  std::vector<Task> tasks;
  {
    const std::lock_guard lock(mutex_);
    tasks.swap(posted_);
  }
  std::size_t ran = 0;
  for (Task& task : tasks) {
    if (stopped_.load()) break;
    task();
    ++ran;
  }
  return ran;
}

std::size_t EventLoop::run_timers() {
  const std::uint64_t now = monotonic_ns();
  std::size_t ran = 0;
  while (!due_.empty() && due_.begin()->first <= now && !stopped_.load()) {
    const TimerId timer = due_.begin()->second;
    due_.erase(due_.begin());
    const auto found = timers_.find(timer);
    if (found->second.period_ns == 0) {
      const Task task = std::move(found->second.task);
      timers_.erase(found);
      task();
    } else {
      Timer& periodic = found->second;
      periodic.due_ns += periodic.period_ns * ((now - periodic.due_ns) / periodic.period_ns + 1);
      due_.emplace(periodic.due_ns, timer);
      const Task task = periodic.task;  // a copy: it may cancel itself
      task();
    }
    ++ran;
  }
  return ran;
}

}  // namespace pillion
