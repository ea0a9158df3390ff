// SPDX-License-Identifier: Apache-2.0
#include "cupti/worker.h"

#include <sys/prctl.h>

#include <csignal>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <vector>

#include "common/knobs.h"
#include "cupti/clock.h"
#include "cupti/driver.h"
#include "cupti/record_layout.h"
#include "cupti/records.h"

namespace simgpu {
namespace {

const bool g_out_of_order = knob("SIMGPU_OUT_OF_ORDER", 0) != 0;
const std::uint64_t g_foreign_at = knob("SIMGPU_FOREIGN_BUFFER", 0);

template <class Visit>
void each_record(const Buffer& buffer, Visit visit) {
  for (std::size_t at = 0; at < buffer.used;) {
    std::uint8_t* record = buffer.data + at;
    const auto kind = get_field<std::uint32_t>(record, 0);
    visit(record, kind);
    at += record_size(kind);
  }
}

// A forced flush takes records whose work is still going on: they have no stamps yet.
void clear_incomplete(const Buffer& buffer, std::uint64_t now) {
  const std::uint64_t client_time = client_now_ns();
  if (buffer.complete_ns <= now) return;
  each_record(buffer, [&](std::uint8_t* record, std::uint32_t kind) {
    const std::size_t at = start_offset(kind);
    if (at == 0 || get_field<std::uint64_t>(record, at + 8) <= client_time) return;
    std::memset(record + at, 0, 16);
  });
}

// Neighbours of one kind change places.
void shuffle(const Buffer& buffer) {
  std::vector<std::uint8_t*> open(64, nullptr);
  std::vector<std::uint8_t> spare;
  each_record(buffer, [&](std::uint8_t* record, std::uint32_t kind) {
    if (kind >= open.size()) return;
    if (open[kind] == nullptr) {
      open[kind] = record;
      return;
    }
    const std::size_t size = record_size(kind);
    spare.assign(record, record + size);
    std::memcpy(record, open[kind], size);
    std::memcpy(open[kind], spare.data(), size);
    open[kind] = nullptr;
  });
}

}  // namespace

void Worker::start() {
  started_ = true;
  sigset_t all{};
  sigset_t before{};
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  std::thread([this] { run(); }).detach();
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

void Worker::retire(const Buffer& buffer) {
  const std::lock_guard lock(mutex_);
  if (!started_) start();
  retired_.push_back({buffer, Drain::kComplete, ++last_sequence_});
  changed_.notify_all();
}

void Worker::drain(Drain how) {
  std::unique_lock lock(mutex_);
  if (how != Drain::kComplete) {
    for (Retired& retired : retired_) retired.how = how;
  }
  const std::uint64_t now = driver() != nullptr ? driver()->now_ns() : ~std::uint64_t{0};
  const std::uint64_t last = last_sequence_;  // what retires from now on is not waited for
  changed_.notify_all();
  changed_.wait(lock, [&] {
    if (in_flight_ != 0 && in_flight_ <= last) return false;
    for (const Retired& retired : retired_) {
      if (retired.sequence > last) continue;
      if (retired.how != Drain::kComplete || retired.buffer.complete_ns <= now) return false;
    }
    return true;
  });
}

bool Worker::take_ready(Retired* ready, std::uint64_t* next_ns) {
  const std::uint64_t now = driver()->now_ns();
  *next_ns = ~std::uint64_t{0};
  for (auto at = retired_.begin(); at != retired_.end(); ++at) {
    if (at->how != Drain::kComplete || at->buffer.complete_ns <= now) {
      *ready = *at;
      retired_.erase(at);
      return true;
    }
    *next_ns = std::min(*next_ns, at->buffer.complete_ns);
  }
  return false;
}

void Worker::run() {
  prctl(PR_SET_NAME, "simgpu-cupti");  // else it passes for the thread that started it
  std::unique_lock lock(mutex_);
  for (;;) {
    Retired ready{};
    std::uint64_t next_ns = 0;
    if (take_ready(&ready, &next_ns)) {
      in_flight_ = ready.sequence;
      lock.unlock();
      give_back(ready);
      lock.lock();
      in_flight_ = 0;
      changed_.notify_all();
    } else if (next_ns == ~std::uint64_t{0}) {
      changed_.wait(lock);
    } else {
      const std::uint64_t now = driver()->now_ns();
      changed_.wait_for(lock, std::chrono::nanoseconds(next_ns > now ? next_ns - now : 0));
    }
  }
}

void Worker::give_back(const Retired& ready) {
  const pillion::cupti::BufferCompletedFunc completed = completed_.load();
  if (completed == nullptr) return;
  Buffer buffer = ready.buffer;
  if (ready.how == Drain::kLose) buffer.used = 0;
  clear_incomplete(buffer, driver()->now_ns());
  if (g_out_of_order) shuffle(buffer);
  if (++given_back_ == g_foreign_at) {
    // Another client's buffer, asked for elsewhere: malloc'd, so a client that frees it corrupts nothing
    // here.
    const std::size_t size = record_size(pillion::cupti::kActivityConcurrentKernel);
    auto* foreign = static_cast<std::uint8_t*>(std::calloc(1, 4096));
    write_foreign_kernel(foreign, size);
    completed(nullptr, 0, foreign, 4096, size);
  }
  completed(nullptr, 0, buffer.data, buffer.size, buffer.used);
}

Worker& worker() {
  static auto* instance = new Worker;
  return *instance;
}

}  // namespace simgpu
