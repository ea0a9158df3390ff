// SPDX-License-Identifier: Apache-2.0
#include "capture_thread.h"

#include <sys/prctl.h>

#include <atomic>

#include "maps_watch.h"
#include "process_exit.h"
#include "shim_log.h"
#include "system_calls.h"
#include "thread_start.h"

namespace pillion::shim {
namespace {

constexpr std::uint64_t kTickNs = 100'000'000;
constexpr std::size_t kStackBytes = std::size_t{2} << 20;  // CUPTI runs on it

enum Order : std::uint32_t { kFlush = 1, kFlushForced = 2, kDisarm = 4 };

// Written by the control thread before the release of `orders` or before the thread starts.
CaptureRequest request;
DisarmOrder disarm_order;

// Written by the capture thread before the release of `phase` or `flushes_done`.
pillion_armed armed;
pillion_refused refused;
std::uint32_t residue;
FlushAnswer flush_answer;

std::atomic<std::uint32_t> orders{0};  // futex word
std::atomic<CapturePhase> phase{CapturePhase::none};
std::atomic<std::uint32_t> flushes_done{0};
std::atomic<std::uint32_t> lost{0};
std::atomic<const char*> lost_text{nullptr};
std::atomic<bool> libraries_moved{false};
std::atomic<std::uint64_t> last_tick{0};

// Control thread's.
ThreadStack stack;
std::uint32_t flushes_ordered;
std::uint32_t flushes_taken;
bool disarm_ordered;

void flush(bool forced) {
  FlushAnswer answer{};
  answer.begun_ns = monotonic_ns();
  answer.cupti_result = capture_flush(forced);
  flush_answer = answer;
  flushes_done.fetch_add(1, std::memory_order_release);
}

void tick() {
  std::uint32_t reason = 0;
  const char* text = nullptr;
  if (lost.load(std::memory_order_relaxed) == 0 && !capture_tick(&reason, &text)) {
    lost_text.store(text, std::memory_order_relaxed);
    if (reason == 0) reason = PILLION_DISARM_CUPTI_FATAL;
    lost.store(reason, std::memory_order_release);
  }
  if (libraries_changed()) {
    libraries_moved.store(true, std::memory_order_release);
    capture_libraries_changed();
  }
  last_tick.store(monotonic_ns(), std::memory_order_relaxed);
}

// Serves orders and ticks until the disarm order has come.
void serve() {
  std::uint64_t next_tick = monotonic_ns();
  for (;;) {
    const std::uint32_t taken = orders.exchange(0, std::memory_order_acquire);
    if ((taken & kFlush) != 0) flush((taken & kFlushForced) != 0);
    if ((taken & kDisarm) != 0) return;
    const std::uint64_t now = monotonic_ns();
    if (now < next_tick) {
      futex_wait(&orders, 0, next_tick - now);
      continue;
    }
    tick();
    next_tick = monotonic_ns() + kTickNs;
  }
}

void* capture_main(void*) {
  note_thread_start(&stack);
  ::prctl(PR_SET_NAME, "pillion-capture");
  libraries_moved.store(libraries_changed(), std::memory_order_relaxed);
  if (!capture_arm(request, &armed, &refused)) {
    phase.store(CapturePhase::refused, std::memory_order_release);
    return nullptr;
  }
  expect_exit();  // CUPTI has registered its own exit handler by now
  phase.store(CapturePhase::armed, std::memory_order_release);
  serve();
  if (disarm_order.flush_first) static_cast<void>(capture_flush(true));
  residue = capture_disarm(disarm_order.finalize, disarm_order.wait_ms);
  // The last touch of anything of ours: from here the control thread may start another.
  phase.store(CapturePhase::disarmed, std::memory_order_release);
  return nullptr;
}

void give(std::uint32_t order) {
  orders.fetch_or(order, std::memory_order_release);
  futex_wake(&orders);
}

}  // namespace

bool capture_start(const CaptureRequest& wanted) {
  request = wanted;
  armed = pillion_armed{};
  refused = pillion_refused{};
  residue = 0;
  orders.store(0, std::memory_order_relaxed);
  flushes_ordered = flushes_taken = 0;
  disarm_ordered = false;
  flushes_done.store(0, std::memory_order_relaxed);
  lost.store(0, std::memory_order_relaxed);
  lost_text.store(nullptr, std::memory_order_relaxed);
  libraries_moved.store(false, std::memory_order_relaxed);
  last_tick.store(0, std::memory_order_relaxed);
  phase.store(CapturePhase::arming, std::memory_order_relaxed);
  if (start_thread_on(capture_main, kStackBytes, &stack)) return true;
  phase.store(CapturePhase::none, std::memory_order_relaxed);
  return false;
}

CapturePhase capture_phase() { return phase.load(std::memory_order_acquire); }

const pillion_armed& capture_armed() { return armed; }

const pillion_refused& capture_refused() { return refused; }

bool capture_order_flush(bool forced) {
  if (flushes_ordered != flushes_taken) return false;
  ++flushes_ordered;
  give(forced ? kFlush | kFlushForced : kFlush);
  return true;
}

bool capture_take_flush(FlushAnswer* out) {
  if (flushes_done.load(std::memory_order_acquire) == flushes_taken) return false;
  ++flushes_taken;
  *out = flush_answer;
  return true;
}

void capture_order_disarm(const DisarmOrder& order) {
  if (disarm_ordered) return;
  disarm_ordered = true;
  disarm_order = order;
  give(kDisarm);
}

std::uint32_t capture_residue() { return residue; }

std::uint32_t capture_lost() { return lost.load(std::memory_order_acquire); }

const char* capture_lost_text() {
  const char* text = lost_text.load(std::memory_order_relaxed);
  return text != nullptr ? text : "";
}

bool capture_take_libraries_changed() { return libraries_moved.exchange(false, std::memory_order_acquire); }

std::uint64_t capture_last_tick_ns() { return last_tick.load(std::memory_order_relaxed); }

bool capture_thread_ended() { return thread_has_ended(stack); }

void capture_forget() {
  unmap_stack(&stack);
  phase.store(CapturePhase::none, std::memory_order_relaxed);
}

}  // namespace pillion::shim
