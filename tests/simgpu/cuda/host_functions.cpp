// SPDX-License-Identifier: Apache-2.0
#include "cuda/host_functions.h"

#include <condition_variable>
#include <csignal>
#include <map>
#include <mutex>
#include <thread>

#include "cuda/clock.h"

namespace simgpu {
namespace {

struct Due {
  CUstream stream;
  CUhostFn function;
  void* data;
};

class Runner {
 public:
  void add(std::uint64_t ns, const Due& due) {
    const std::lock_guard lock(mutex_);
    if (!started_) start();
    due_.emplace(ns, due);
    open_[due.stream] += 1;
    changed_.notify_all();
  }

  void wait(CUstream stream) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] {
      const auto open = open_.find(stream);
      return open == open_.end() || open->second == 0;
    });
  }

 private:
  void start() {
    started_ = true;
    sigset_t all{};
    sigset_t before{};
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    std::thread([this] { run(); }).detach();
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
  }

  void run() {
    std::unique_lock lock(mutex_);
    for (;;) {
      changed_.wait(lock, [&] { return !due_.empty(); });
      const auto first = due_.begin();
      const auto [ns, due] = *first;
      lock.unlock();
      if (ns > now_ns()) sleep_until(ns);
      lock.lock();
      due_.erase(first);
      lock.unlock();
      due.function(due.data);
      lock.lock();
      open_[due.stream] -= 1;
      changed_.notify_all();
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::multimap<std::uint64_t, Due> due_;
  std::map<CUstream, std::uint64_t> open_;
  bool started_ = false;
};

// Never destroyed: its thread runs until the process ends.
Runner& runner() {
  static auto* instance = new Runner;
  return *instance;
}

}  // namespace

void run_at(std::uint64_t ns, CUstream stream, CUhostFn function, void* data) {
  runner().add(ns, {stream, function, data});
}

void wait_host_functions(CUstream stream) { runner().wait(stream); }

}  // namespace simgpu
