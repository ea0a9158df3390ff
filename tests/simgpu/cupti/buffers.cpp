// SPDX-License-Identifier: Apache-2.0
#include "cupti/buffers.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "common/knobs.h"
#include "cupti/callbacks.h"
#include "cupti/driver.h"
#include "cupti/worker.h"

namespace simgpu {

using namespace pillion::cupti;

namespace {

struct Thread {
  std::mutex mutex;  // never held while g_threads_mutex is wanted
  Buffer current;
  bool exited = false;
};

std::atomic<BufferRequestedFunc> g_requested{nullptr};
std::atomic<bool> g_registered_ever{false};
std::atomic<std::uint64_t> g_dropped{0};
std::atomic<bool> g_zeroed{false};

// Records a second that a flush can keep up with; 0: any.
const std::uint64_t g_flush_capacity = knob("SIMGPU_FLUSH_CAPACITY", 0);
std::atomic<std::uint64_t> g_records_made{0};

std::mutex g_threads_mutex;
auto& g_threads = *new std::vector<std::shared_ptr<Thread>>;  // leaked: threads outlive static destruction

// A thread's buffer lives on after the thread, until a flush fetches it.
struct ThreadHandle {
  std::shared_ptr<Thread> thread = std::make_shared<Thread>();
  ThreadHandle() {
    const std::lock_guard lock(g_threads_mutex);
    g_threads.push_back(thread);
  }
  ~ThreadHandle() {
    const std::lock_guard lock(thread->mutex);
    thread->exited = true;
  }
};

Thread& this_thread() {
  thread_local ThreadHandle handle;
  return *handle.thread;
}

// As measured: a flush under a flood of records does not return before the flood is over.
void await_calm() {
  constexpr std::uint64_t kLookMs = 10;
  const std::uint64_t bearable = g_flush_capacity * kLookMs / 1000;
  for (;;) {
    const std::uint64_t before = g_records_made.load(std::memory_order_relaxed);
    std::this_thread::sleep_for(std::chrono::milliseconds(kLookMs));
    if (g_records_made.load(std::memory_order_relaxed) - before <= bearable) return;
  }
}

// Asks the client, on the launching thread.
bool request(Buffer& buffer, std::size_t need) {
  const BufferRequestedFunc requested = g_requested.load(std::memory_order_acquire);
  buffer = Buffer{};
  std::size_t most = 0;
  if (requested != nullptr) requested(&buffer.data, &buffer.size, &most);
  if (buffer.data == nullptr || buffer.size < need) {
    if (requested != nullptr)
      dispatch_state(kStateWarning, kErrorOutOfMemory, "no activity buffer: record dropped");
    if (buffer.data != nullptr) worker().retire(buffer);
    buffer = Buffer{};
    return false;
  }
  buffer.most_records = most;
  if (!g_zeroed.load(std::memory_order_relaxed)) std::memset(buffer.data, 0, buffer.size);
  return true;
}

bool fits(const Buffer& buffer, std::size_t bytes) {
  return buffer.data != nullptr && buffer.used + bytes <= buffer.size &&
         (buffer.most_records == 0 || buffer.records < buffer.most_records);
}

// What a thread has not filled is forgotten at a finalize, and never given back.
void forget_current() {
  std::vector<std::shared_ptr<Thread>> threads;
  {
    const std::lock_guard lock(g_threads_mutex);
    threads = g_threads;
  }
  for (const auto& thread : threads) {
    const std::lock_guard lock(thread->mutex);
    thread->current = Buffer{};
  }
}

// Takes the buffers that a flush may have, under each thread's lock.
void retire_current(bool forced) {
  const std::uint64_t now = driver() != nullptr ? driver()->now_ns() : 0;
  std::vector<std::shared_ptr<Thread>> threads;
  {
    const std::lock_guard lock(g_threads_mutex);
    threads = g_threads;
  }
  for (const auto& thread : threads) {
    const std::lock_guard lock(thread->mutex);
    Buffer& buffer = thread->current;
    if (buffer.data == nullptr || (buffer.used == 0 && !forced)) continue;
    if (!forced && buffer.complete_ns > now) continue;
    worker().retire(buffer);
    buffer = Buffer{};
  }
  const std::lock_guard lock(g_threads_mutex);
  std::erase_if(g_threads, [](const std::shared_ptr<Thread>& thread) {
    const std::lock_guard thread_lock(thread->mutex);
    return thread->exited && thread->current.data == nullptr;
  });
}

}  // namespace

bool register_buffer_callbacks(BufferRequestedFunc requested, BufferCompletedFunc completed) {
  if (requested == nullptr || completed == nullptr) return false;
  g_requested.store(requested, std::memory_order_release);
  g_registered_ever.store(true, std::memory_order_release);
  worker().set_completed(completed);
  return true;
}

RecordSlot::RecordSlot(std::size_t bytes, std::uint64_t complete_ns)
    : thread_(&this_thread()), record_(nullptr) {
  if (g_flush_capacity != 0) g_records_made.fetch_add(1, std::memory_order_relaxed);
  auto* thread = static_cast<Thread*>(thread_);
  thread->mutex.lock();
  Buffer& buffer = thread->current;
  if (!fits(buffer, bytes)) {
    if (buffer.data != nullptr) worker().retire(buffer);
    if (!request(buffer, bytes)) {
      count_dropped();
      return;
    }
  }
  record_ = buffer.data + buffer.used;
  buffer.used += bytes;
  buffer.records += 1;
  buffer.complete_ns = std::max(buffer.complete_ns, complete_ns);
}

RecordSlot::~RecordSlot() { static_cast<Thread*>(thread_)->mutex.unlock(); }

Result flush_buffers(bool forced) {
  // After a finalize it succeeds and does nothing.
  if (!g_registered_ever.load(std::memory_order_acquire)) return kErrorInvalidOperation;
  if (g_requested.load(std::memory_order_acquire) == nullptr) return kSuccess;
  if (g_flush_capacity != 0) await_calm();
  retire_current(forced);
  worker().drain(forced ? Drain::kForced : Drain::kComplete);
  return kSuccess;
}

void finalize_buffers(bool lose) {
  if (g_requested.load(std::memory_order_acquire) == nullptr) return;
  forget_current();
  worker().drain(lose ? Drain::kLose : Drain::kForced);
  g_requested.store(nullptr, std::memory_order_release);
}

std::uint64_t take_dropped() { return g_dropped.exchange(0, std::memory_order_relaxed); }
void count_dropped() { g_dropped.fetch_add(1, std::memory_order_relaxed); }
void set_zeroed_by_client(bool zeroed) { g_zeroed.store(zeroed, std::memory_order_relaxed); }

}  // namespace simgpu
