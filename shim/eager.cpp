// SPDX-License-Identifier: Apache-2.0
#include "eager.h"

#include <sys/prctl.h>

#include <atomic>

#include "capture_session.h"
#include "driver_state.h"
#include "shim_log.h"
#include "system_calls.h"
#include "thread_start.h"

namespace pillion::shim {

constinit ModuleKeeper g_keeper{};

namespace {

constexpr std::size_t kStackBytes = std::size_t{2} << 20;  // CUPTI runs on it
// How often it looks for the first context: a context takes some hundred ms to make, and modules load after
// it.
constexpr std::uint64_t kLookNs = 1'000'000;
constexpr std::uint64_t kLookLaterNs = 100'000'000;
constexpr std::uint64_t kHopefulNs = 10'000'000'000;

enum State : std::uint32_t {
  kOff,
  kWaiting,      // for a context
  kSubscribing,  // one thread is at it, and owns g_subscription
  kReady,        // the capture thread owns it
};
std::atomic<std::uint32_t> g_state{kOff};
Subscription g_subscription{};

void subscribe_now() {
  pillion_refused refused{};
  const CuptiApi* api = cupti_load(cuda_driver_version(), &refused);
  if (api == nullptr || !subscribe_modules(*api, &g_subscription, &refused)) {
    g_subscription = {};
    log_line("eager: no modules are kept:", refused.text);
  }
}

void* eager_main(void*) {
  ::prctl(PR_SET_NAME, "pillion-eager");
  const std::uint64_t begun = monotonic_ns();
  while (!context_is_mapped()) {
    if (g_inert.load(std::memory_order_relaxed)) return nullptr;
    sleep_ns(monotonic_ns() - begun < kHopefulNs ? kLookNs : kLookLaterNs);
  }
  std::uint32_t waiting = kWaiting;
  if (!g_state.compare_exchange_strong(waiting, kSubscribing, std::memory_order_acq_rel)) return nullptr;
  subscribe_now();
  g_state.store(kReady, std::memory_order_release);
  return nullptr;
}

}  // namespace

void start_eager() {
  g_state.store(kWaiting, std::memory_order_release);
  if (start_thread(eager_main, kStackBytes)) return;
  g_state.store(kReady, std::memory_order_release);  // the first session makes up for it
}

bool is_eager() { return g_state.load(std::memory_order_relaxed) != kOff; }

Subscription take_eager_subscription() {
  std::uint32_t seen = g_state.load(std::memory_order_acquire);
  if (seen == kOff) return {};
  if (seen == kWaiting && g_state.compare_exchange_strong(seen, kReady, std::memory_order_acq_rel)) return {};
  while (g_state.load(std::memory_order_acquire) == kSubscribing) sleep_ns(1'000'000);
  const Subscription held = g_subscription;
  g_subscription = {};
  return held;
}

void resume_eager() {
  if (is_eager() && g_subscription.subscriber == nullptr) subscribe_now();
}

}  // namespace pillion::shim
