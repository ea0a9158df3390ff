// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>

#include "cupti_api.h"
#include "flush_policy.h"
#include "module_store.h"
#include "ring_writer.h"
#include "sampler.h"

// What callbacks need of the session that is recording. Callbacks run on the program's threads and on
// CUPTI's, and may be late: so the structs live in static storage, are used in turn, and whatever is
// published checks `number` inside the ring's lock.
namespace pillion::shim {

struct CaptureSession {
  std::atomic<std::uint32_t> number{0};  // of this process's armings, from 1; 0 from the moment it ends
  RingSet* events = nullptr;
  RingSet* stacks = nullptr;
  pillion_counters* counters = nullptr;  // kCounterShards of them
  const CuptiApi* api = nullptr;
  std::uint32_t kinds = 0;  // enum pillion_kinds, as asked for
  std::uint32_t stack_bytes_max = 0;
  bool stacks_wanted = false;
  bool syncs_wanted = false;
  bool calls_wanted = false;  // how long launches take
  cupti::Subscriber subscriber = nullptr;
  std::atomic<bool> profiled_on{false};  // MODULE_PROFILED

  std::atomic<std::uint32_t> tick{0};               // from 1, grows with each capture_tick()
  std::atomic<std::uint32_t> threads_this_tick{0};  // that have launched
  std::uint64_t launches_added = 0;                 // capture thread: of the rings' tally, to the counters
  std::atomic<std::uint64_t> executions{0};         // records received, for the watch on our registration
};

// Null while nothing is to be recorded. Set and taken away by the capture thread.
extern std::atomic<CaptureSession*> g_session;

// Shared by all sessions; one session uses them at a time. Synchronisation calls have a budget of their own:
// a program that spins in them cannot take the launches' stacks away.
extern Sampler g_sampler;
extern SyncSampler g_sync_sampler;
extern ModuleStore g_modules;
extern FlushPolicy g_flush_policy;

// Set in a forked child, for ever.
extern std::atomic<bool> g_inert;

// Counts why a record was not taken.
struct DropFields {
  std::uint64_t pillion_counters::*busy;
  std::uint64_t pillion_counters::*full;
};

inline void count_drop(const CaptureSession& session, std::uint32_t tid, PushResult result,
                       const DropFields& fields) {
  if (result == PushResult::busy) count(session.counters, tid, fields.busy);
  if (result == PushResult::full) count(session.counters, tid, fields.full);
}

}  // namespace pillion::shim
