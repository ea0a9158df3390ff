// SPDX-License-Identifier: Apache-2.0
//
// The shim's Python side as a library that a Python program calls through ctypes: CDLL calls it without the
// GIL as CUDA launches are made, PyDLL with it. What it returns is compared by frames.py with what the
// interpreter says of itself.
#include <pthread.h>

#include <cstring>
#include <memory>
#include <vector>

#include "../control/shared_region.h"
#include "activity_recorder.h"
#include "launch_recorder.h"
#include "python_codes.h"
#include "python_frames.h"
#include "python_stack.h"
#include "system_calls.h"
#include "thread_state.h"

using namespace pillion;
using namespace pillion::shim;

namespace {

struct Session {
  test::SharedRegion events;
  test::SharedRegion stacks{{PILLION_REGION_STACKS, 1, 1, 4 << 20}};
  std::unique_ptr<RingSet> event_set = std::make_unique<RingSet>();
  std::unique_ptr<RingSet> stack_set = std::make_unique<RingSet>();
  pillion_counters counters[kCounterShards] = {};
  CuptiApi api{};
  CaptureSession session{};

  explicit Session(std::uint32_t event_bytes) : events({PILLION_REGION_EVENTS, 1, 1, event_bytes}) {
    event_set->open(events.base(), events.header());
    stack_set->open(stacks.base(), stacks.header());
    g_sampler.begin({10'000, 4096, 196'608});
    session.events = event_set.get();
    session.stacks = stack_set.get();
    session.counters = counters;
    session.api = &api;
    session.stack_bytes_max = 192 * 1024;
    session.stacks_wanted = true;
    session.tick = 1;
    static std::uint32_t number = 0;
    session.number = ++number;
  }
};

Session* g_open;

// A second reader with a table of its own that a test may spoil.
struct Spoiled {
  PythonOffsets offsets;
  Interpreter interpreter;
  ReadablePages pages;
  PythonCodes codes;
};
Spoiled g_spoiled;

std::size_t take(test::SharedRegion& region, std::uint8_t* to, std::size_t size) {
  std::size_t used = 0;
  for (const auto& record : region.drain(0)) {
    if (used + record.size() > size) break;
    std::memcpy(to + used, record.data(), record.size());
    used += record.size();
  }
  return used;
}

void* walk_here(void* out) {
  walk_python(g_open->session, g_open->session.number, own_tid(), static_cast<PythonStack*>(out));
  return nullptr;
}

}  // namespace

#define EXPORT extern "C" __attribute__((visibility("default")))

EXPORT std::uint32_t walker_begin(std::uint32_t event_bytes) {
  g_open = new Session(event_bytes);
  python_begin(true);
  g_session = &g_open->session;
  pillion_python state{};
  (void)python_state(&state);
  return state.state;
}

EXPORT void walker_end() {
  g_session = nullptr;
  g_open->session.number = 0;
  python_end();
  (void)g_open->event_set->close(100);
  (void)g_open->stack_set->close(100);  // kept: a walk without a session is tried, too
}

EXPORT std::uint32_t walker_version() {
  pillion_python state{};
  (void)python_state(&state);
  return state.version;
}

EXPORT void walker_walk(PythonStack* out) { walk_here(out); }

// On a thread that Python knows nothing of.
EXPORT void walker_walk_on_foreign_thread(PythonStack* out) {
  pthread_t thread;
  if (::pthread_create(&thread, nullptr, walk_here, out) == 0) ::pthread_join(thread, nullptr);
}

EXPORT std::uint64_t walker_place() { return python_place(); }

// One launch as CUPTI reports it. Its records are for walker_records() and walker_snapshots().
EXPORT void walker_launch(std::uint32_t correlation) {
  const std::uint64_t parameters[4] = {0xf00d, 0, 0, 0};
  std::uint32_t result = 0;
  cupti::CallbackData data{};
  data.function_params = parameters;
  data.function_return_value = &result;
  data.correlation_id = correlation;
  for (const auto site : {cupti::kApiEnter, cupti::kApiExit}) {
    data.callback_site = site;
    subscriber_callback(nullptr, cupti::kDomainDriverApi, 307, &data);
  }
}

EXPORT std::uint64_t walker_records(std::uint8_t* to, std::uint64_t size) {
  return take(g_open->events, to, size);
}
EXPORT std::uint64_t walker_snapshots(std::uint8_t* to, std::uint64_t size) {
  return take(g_open->stacks, to, size);
}
EXPORT void walker_retry() { python_retry(g_open->session, own_tid()); }

EXPORT std::uint64_t walker_counter(const char* name) {
  struct Named {
    const char* name;
    std::uint64_t pillion_counters::*field;
  };
  constexpr Named kNamed[] = {{"snapshots", &pillion_counters::python_snapshots},
                              {"partial", &pillion_counters::python_partial},
                              {"codes", &pillion_counters::python_codes},
                              {"refused", &pillion_counters::python_codes_refused},
                              {"ns", &pillion_counters::python_ns}};
  std::uint64_t total = 0;
  for (const Named& named : kNamed) {
    if (std::strcmp(named.name, name) != 0) continue;
    for (const pillion_counters& shard : g_open->counters) total += shard.*named.field;
  }
  return total;
}

// Nanoseconds of one walk, the fastest of several rounds; and of one look at the innermost place.
EXPORT double walker_walk_ns(std::uint32_t walks) {
  PythonStack out;
  double best = 1e9;
  for (int round = 0; round < 20; ++round) {
    const std::uint64_t begun = monotonic_ns();
    for (std::uint32_t i = 0; i < walks; ++i) walk_here(&out);
    const double ns = static_cast<double>(monotonic_ns() - begun) / walks;
    if (ns < best) best = ns;
  }
  return best;
}

EXPORT double walker_place_ns(std::uint32_t times) {
  std::uint64_t sum = 0;
  double best = 1e9;
  for (int round = 0; round < 20; ++round) {
    const std::uint64_t begun = monotonic_ns();
    for (std::uint32_t i = 0; i < times; ++i) sum += python_place();
    const double ns = static_cast<double>(monotonic_ns() - begun) / times;
    if (ns < best && sum != 0) best = ns;
  }
  return best;
}

EXPORT const char* walker_offset_name(std::uint32_t index) {
  constexpr auto kCount = sizeof(kPythonOffsetFields) / sizeof(kPythonOffsetFields[0]);
  return index < kCount ? kPythonOffsetFields[index].name : nullptr;
}

EXPORT std::int32_t walker_offset(std::uint32_t version, std::uint32_t index) {
  const PythonOffsets* table = python_offsets(version);
  return table == nullptr ? -1 : static_cast<std::int32_t>(table->*kPythonOffsetFields[index].field);
}

// From now on walker_walk_spoiled() has this version's table but for one offset, and met nothing before.
EXPORT void walker_spoil(std::uint32_t index, std::int32_t by) {
  PythonFinding finding;
  if (!find_python(&g_spoiled.interpreter, &finding)) return;
  g_spoiled.offsets = *g_spoiled.interpreter.offsets;
  std::uint16_t& field = g_spoiled.offsets.*kPythonOffsetFields[index].field;
  if (field != PythonOffsets::kAbsent) field = static_cast<std::uint16_t>(field + by);
  g_spoiled.interpreter.offsets = &g_spoiled.offsets;
  g_spoiled.pages.forget();
  if (!g_spoiled.codes.begin()) g_spoiled.interpreter.offsets = nullptr;
}

EXPORT void walker_walk_spoiled(PythonStack* out) {
  if (g_spoiled.interpreter.offsets == nullptr) return;
  collect_python({g_spoiled.interpreter, g_spoiled.pages, g_open->session, g_open->session.number, own_tid()},
                 g_spoiled.codes, out);
}
