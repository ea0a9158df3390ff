// SPDX-License-Identifier: Apache-2.0
//
// A capture side without CUPTI. Its behaviour comes from the environment of the process it is in:
//   FAKE_ARM_MS      how long capture_arm() takes; a positive number also makes it uninterruptible
//   FAKE_REFUSE      capture_arm() says no
//   FAKE_PRODUCERS   threads that push launch records while armed (tid + sequence number in each)
//   FAKE_FLUSH_MS    how long capture_flush() takes
//   FAKE_DISARM_MS   how long capture_disarm() takes
//   FAKE_LOST_TICK   capture_tick() gives up at this tick
//   FAKE_REPORT      file to which one character per event is appended: a(rm) d(isarm) t(ick) f(lush) c(hild)
#include "fake_capture.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

#include <atomic>

#include "capture.h"
#include "ring_writer.h"
#include "system_calls.h"

namespace pillion::shim {
namespace {

constexpr std::uint32_t kProducersMax = 64;

std::atomic<RingSet*> events{nullptr};
std::atomic<pillion_counters*> counters{nullptr};
std::atomic<bool> producing{false};
std::atomic<std::uint32_t> inside{0};
std::atomic<std::uint32_t> ticks{0};

std::uint32_t number(const char* name) {
  const char* text = ::getenv(name);
  return text == nullptr ? 0 : static_cast<std::uint32_t>(::strtoul(text, nullptr, 10));
}

void report(char event) {
  const char* path = ::getenv("FAKE_REPORT");
  if (path == nullptr) return;
  const int fd = ::open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
  if (fd < 0) return;
  [[maybe_unused]] const ssize_t written = ::write(fd, &event, 1);
  ::close(fd);
}

void sleep_ms(std::uint32_t ms) {
  if (ms > 0) sleep_ns(std::uint64_t{ms} * 1'000'000u);
}

void* produce(void*) {
  const std::uint32_t tid = this_tid();
  for (std::uint32_t sequence = 1; producing.load(std::memory_order_acquire); ++sequence) {
    static_cast<void>(fake_launch(tid, sequence));
    if (sequence % 1024 == 0) sleep_ns(100'000);
  }
  inside.fetch_sub(1, std::memory_order_release);
  return nullptr;
}

}  // namespace

PushResult fake_launch(std::uint32_t tid, std::uint32_t sequence) {
  RingSet* rings = events.load(std::memory_order_acquire);
  if (rings == nullptr) return PushResult::closed;
  pillion_launch launch{};
  launch.header.type = PILLION_RECORD_LAUNCH;
  launch.header.size = sizeof launch;
  launch.correlation = sequence;
  launch.tid = tid;
  launch.time_ns = monotonic_ns();
  const PushResult result = rings->push(tid, &launch, sizeof launch);
  pillion_counters* shards = counters.load(std::memory_order_acquire);
  if (result != PushResult::closed) count(shards, tid, &pillion_counters::launches);
  if (result == PushResult::full) count(shards, tid, &pillion_counters::launches_dropped_full);
  if (result == PushResult::busy) count(shards, tid, &pillion_counters::launches_dropped_busy);
  return result;
}

bool capture_arm(const CaptureRequest& request, pillion_armed* armed, pillion_refused* refused) {
  report('a');
  sleep_ms(number("FAKE_ARM_MS"));
  if (number("FAKE_REFUSE") != 0) {
    refused->reason = PILLION_REFUSAL_SUBSCRIBER_HELD;
    refused->cupti_result = 39;
    refused->holder[0] = 'X';
    return false;
  }
  ticks.store(0);
  counters.store(request.counters, std::memory_order_release);
  events.store(request.events, std::memory_order_release);
  armed->armed_ns = monotonic_ns();
  armed->kinds = request.kinds;
  armed->sample_permyriad = request.sample_permyriad;
  armed->sample_mib_per_s = request.sample_mib_per_s;
  armed->stack_bytes_max = request.stack_bytes_max;
  producing.store(true, std::memory_order_release);
  for (std::uint32_t i = 0; i < number("FAKE_PRODUCERS") && i < kProducersMax; ++i) {
    pthread_t thread;
    inside.fetch_add(1, std::memory_order_relaxed);
    if (::pthread_create(&thread, nullptr, produce, nullptr) == 0) ::pthread_detach(thread);
  }
  return true;
}

bool capture_tick(std::uint32_t* reason, const char** text) {
  const std::uint32_t tick = ticks.fetch_add(1) + 1;
  if (tick <= 3) report('t');
  const std::uint32_t lost = number("FAKE_LOST_TICK");
  if (lost == 0 || tick < lost) return true;
  *reason = PILLION_DISARM_CLOBBERED;
  *text = "the fake lost it";
  return false;
}

void capture_libraries_changed() {}

// As if an interpreter of a known version were there.
std::uint32_t capture_python(pillion_python* out) {
  if (events.load(std::memory_order_acquire) == nullptr) return 0;
  out->state = PILLION_PYTHON_IN_FORCE;
  out->version = 0x030b02f0;
  out->text[0] = '\0';
  return 1;
}

std::uint32_t capture_flush(bool forced) {
  report(forced ? 'F' : 'f');
  sleep_ms(number("FAKE_FLUSH_MS"));
  return forced ? 0 : 7;  // tells apart what was asked for
}

std::uint32_t capture_disarm(bool finalize, std::uint32_t) {
  sleep_ms(number("FAKE_DISARM_MS"));
  producing.store(false, std::memory_order_release);
  while (inside.load(std::memory_order_acquire) != 0) sleep_ns(100'000);
  events.store(nullptr, std::memory_order_release);
  report(finalize ? 'D' : 'd');
  return finalize ? PILLION_RESIDUE_FINALIZED : PILLION_RESIDUE_NOT_ASKED;
}

void capture_cuda_is_starting() {}
void capture_start_eager() {}

bool capture_context_exists() { return true; }
std::uint32_t capture_driver_version() { return 13000; }
std::uint32_t capture_cupti_version() { return 130001; }
const char* capture_cupti_path() { return "/fake/libcupti.so.13"; }

void capture_after_fork_in_child() { report('c'); }

}  // namespace pillion::shim
