// SPDX-License-Identifier: Apache-2.0
#include "capture.h"

#include "activity_recorder.h"
#include "arming.h"
#include "bounded_text.h"
#include "capture_session.h"
#include "capture_step.h"
#include "detach.h"
#include "driver_state.h"
#include "eager.h"
#include "graph_threads.h"
#include "launch_recorder.h"
#include "python_frames.h"
#include "registration_watch.h"
#include "stamp_clock.h"
#include "system_calls.h"
#include "thread_state.h"

namespace pillion::shim {

std::atomic<CaptureSession*> g_session{nullptr};
std::atomic<bool> g_inert{false};
constinit Sampler g_sampler{};
constinit SyncSampler g_sync_sampler{};
constinit ModuleStore g_modules{};
constinit FlushPolicy g_flush_policy{};

namespace {

constexpr std::uint32_t kSessionsInTurn = 4;
constexpr std::uint32_t kStackBytesDefault = 192 * 1024;
constexpr std::uint32_t kStackBytesMin = 4096;
constexpr std::uint32_t kStackBytesMax = 1024 * 1024;

// Capture thread alone.
struct Recording {
  CaptureSession* session;
  const CuptiApi* api;
  Subscription subscription;
  RegistrationWatch watch;
  RegistrationWatch::Loss loss;
  std::uint64_t last_tick_ns;
  std::uint64_t launches_seen;
  std::uint64_t syncs_seen;
};

constinit CaptureSession g_sessions[kSessionsInTurn]{};
std::uint32_t g_armings = 0;
constinit Recording g_recording{};
constinit FinalizeBudget g_finalize_budget{};

std::uint64_t sum(const pillion_counters* shards, std::uint64_t pillion_counters::*field) {
  std::uint64_t total = 0;
  for (std::uint32_t shard = 0; shard < kCounterShards; ++shard) {
    // Threads add while this reads; atomic_ref wants an object that is not const.
    auto& word = const_cast<std::uint64_t&>(shards[shard].*field);
    total += std::atomic_ref<std::uint64_t>(word).load(std::memory_order_relaxed);
  }
  return total;
}

std::uint32_t clamp_stack_bytes(std::uint32_t wanted) {
  if (wanted == 0) return kStackBytesDefault;
  if (wanted < kStackBytesMin) return kStackBytesMin;
  if (wanted > kStackBytesMax) return kStackBytesMax;
  return wanted & ~15u;
}

CaptureSession* prepare_session(const CaptureRequest& request, const CuptiApi* api) {
  if (++g_armings == 0) ++g_armings;
  CaptureSession* session = &g_sessions[g_armings % kSessionsInTurn];
  session->events = request.events;
  session->stacks = request.stacks;
  session->counters = request.counters;
  session->api = api;
  session->kinds = request.kinds;
  session->stack_bytes_max = clamp_stack_bytes(request.stack_bytes_max);
  session->stacks_wanted = (request.kinds & PILLION_KIND_STACKS) != 0 && request.sample_permyriad != 0 &&
                           request.sample_mib_per_s != 0;
  session->syncs_wanted = (request.kinds & PILLION_KIND_SYNC) != 0;
  session->calls_wanted = (request.kinds & PILLION_KIND_CALLS) != 0;
  session->tick.store(1, std::memory_order_relaxed);
  session->threads_this_tick.store(0, std::memory_order_relaxed);
  session->executions.store(0, std::memory_order_relaxed);
  session->launches_added = 0;
  session->profiled_on.store((request.kinds & PILLION_KIND_MODULES) != 0, std::memory_order_relaxed);
  session->number.store(g_armings, std::memory_order_relaxed);
  return session;
}

// What part of the budget goes to the stacks of synchronisation calls.
constexpr double kSyncShare = 1.0 / 8;

void begin_samplers(const CaptureRequest& request) {
  const SamplerBudget budget{request.sample_permyriad, request.sample_mib_per_s, request.stack_bytes_max, 1};
  SamplerBudget launches = budget;
  if ((request.kinds & PILLION_KIND_SYNC) != 0) {
    launches.share = 1 - kSyncShare;
    SamplerBudget syncs = budget;
    syncs.share = kSyncShare;
    g_sync_sampler.begin(syncs);
  }
  g_sampler.begin(launches);
}

bool prepare_memory(const CaptureRequest& request, const CuptiApi& api, pillion_refused* refused) {
  const char* problem = nullptr;
  if (!activity_begin(api.version)) {
    problem = "no memory for activity buffers, or a completion of the last session still goes on";
  } else if (!g_modules.begin(request.arena, request.arena_bytes, {request.counters, api.context_id})) {
    problem = "arena: its tables do not lie within it";
  }
  if (problem == nullptr) return true;
  refused->reason = PILLION_REFUSAL_MEMORY;
  BoundedText(refused->text).add(problem);
  return false;
}

// Takes the session away from the callbacks. Afterwards none of them touches what the request lent.
void end_session(CaptureSession* session) {
  g_session.store(nullptr, std::memory_order_seq_cst);
  // Completions that are under way stop at their next record.
  session->number.store(0, std::memory_order_relaxed);
  (void)activity_quiesce(2000);
  python_end();
  g_modules.end();
  add_recorded_launches(*session);
}

void fill_armed(const CaptureRequest& request, const Recording& recording, pillion_armed* armed) {
  armed->generation = request.generation;
  armed->kinds = recording.subscription.in_force;
  if (recording.session->stacks_wanted) armed->kinds |= PILLION_KIND_STACKS;
  if (python_in_force()) armed->kinds |= PILLION_KIND_PYTHON;
  armed->sample_permyriad = request.sample_permyriad;
  armed->sample_mib_per_s = request.sample_mib_per_s;
  armed->stack_bytes_max = recording.session->stack_bytes_max;
  armed->driver_version = cuda_driver_version();
  armed->cupti_version = recording.api->version;
  BoundedText(armed->cupti_path).add(recording.api->path);
  armed->armed_ns = monotonic_ns();
}

void adapt_sampler(Recording& recording, std::uint64_t now) {
  CaptureSession& session = *recording.session;
  add_recorded_launches(session);
  const std::uint64_t launches = sum(session.counters, &pillion_counters::launches);
  const std::uint32_t threads = session.threads_this_tick.exchange(0, std::memory_order_relaxed);
  const std::uint64_t elapsed_ns = now - recording.last_tick_ns;
  g_sampler.tick({elapsed_ns, launches - recording.launches_seen, threads});
  recording.launches_seen = launches;
  const std::uint64_t syncs = sum(session.counters, &pillion_counters::syncs);
  if (session.syncs_wanted) g_sync_sampler.tick({elapsed_ns, syncs - recording.syncs_seen, threads});
  recording.syncs_seen = syncs;
  recording.last_tick_ns = now;
  // 0 is what a thread that never launched has.
  std::uint32_t tick = session.tick.load(std::memory_order_relaxed) + 1;
  session.tick.store(tick != 0 ? tick : 1, std::memory_order_relaxed);
  set_gauge(session.counters, &pillion_counters::launching_threads, threads);
  set_gauge(session.counters, &pillion_counters::sample_interval, g_sampler.interval());
}

// Launches that will bring records, and what has come of them.
RegistrationWatch::Counts watched_counts(const CaptureSession& session) {
  const std::uint64_t vain = sum(session.counters, &pillion_counters::launches_failed) +
                             sum(session.counters, &pillion_counters::launches_captured);
  return {sum(session.counters, &pillion_counters::launches) - vain,
          session.executions.load(std::memory_order_relaxed), activity_signs()};
}

enum class FlushFor { tick, request };

// Where records flood, CUPTI hands them over by itself, and a flush would not return. The tick with which a
// session begins does not know yet.
cupti::Result flush_if_calm(const Recording& recording, cupti::ActivityFlushFlag flag, FlushFor reason) {
  const bool known =
      g_flush_policy.look(recording.session->executions.load(std::memory_order_relaxed), monotonic_ns());
  if (!g_flush_policy.allowed() || (reason == FlushFor::tick && !known)) return cupti::kSuccess;
  const CaptureStep step("cuptiActivityFlushAll");
  return recording.api->flush_all(flag);
}

// MODULE_PROFILED is switched on in the launch path, too.
void switch_module_profiled(const Recording& recording) {
  CaptureSession& session = *recording.session;
  if ((session.kinds & PILLION_KIND_MODULES) == 0) return;
  const bool wanted = g_modules.profiled_wanted();
  if (session.profiled_on.exchange(wanted, std::memory_order_relaxed) != wanted)
    enable_module_profiled(*recording.api, session.subscriber, wanted);
}

// CUPTI copies modules while it is on. Who leaves with it on has seen a PyTorch program grow by 12 to 68 MiB
// within some cycles, in jumps; who did not, by 0 to 3 (measured: tests/gpu/attach_bare.py, growth).
void stop_module_profiled(const Recording& recording) {
  CaptureSession& session = *recording.session;
  if (session.profiled_on.exchange(false, std::memory_order_relaxed))
    enable_module_profiled(*recording.api, session.subscriber, false);
}

BufferFate fate_of_buffers(std::uint32_t residue, const RegistrationWatch::Loss& loss) {
  if (residue == PILLION_RESIDUE_FINALIZED || loss.finalised) return BufferFate::forgotten;
  return residue == PILLION_RESIDUE_FOREIGN && !loss.buffers_ours ? BufferFate::foreign : BufferFate::unused;
}

}  // namespace

bool capture_arm(const CaptureRequest& request, pillion_armed* armed, pillion_refused* refused) {
  *refused = {};
  refused->generation = request.generation;
  if (g_inert.load(std::memory_order_relaxed)) {
    refused->reason = PILLION_REFUSAL_INERT;
    BoundedText(refused->text).add("a forked child does not record");
    return false;
  }
  const CuptiApi* api = cupti_load(cuda_driver_version(), refused);
  if (api == nullptr) return false;
  call_off_detach();
  Recording recording{};
  recording.api = api;
  recording.subscription = take_eager_subscription();
  if (!subscribe_cupti(*api, &recording.subscription, refused)) return false;
  if (!prepare_memory(request, *api, refused)) {
    (void)api->unsubscribe(recording.subscription.subscriber);
    resume_eager();
    return false;
  }
  begin_samplers(request);
  g_stamp_clock.begin(processor_clock_is_steady());
  recording.last_tick_ns = monotonic_ns();
  begin_graph_session(recording.last_tick_ns);
  g_flush_policy.begin(recording.last_tick_ns);
  forget_cupti_loss();
  recording.session = prepare_session(request, api);
  recording.session->subscriber = recording.subscription.subscriber;
  // Before anything can be recorded: who drains a record finds its module there.
  if (is_eager()) g_keeper.begin_replay();
  (void)g_keeper.replay(g_modules, own_tid());
  python_begin(recording.session->stacks_wanted && (request.kinds & PILLION_KIND_PYTHON) != 0);
  // Pairs with the acquire in the callbacks, which may come from the next call on.
  g_session.store(recording.session, std::memory_order_seq_cst);
  if (!enable_recording(*api, request.kinds, &recording.subscription, refused)) {
    end_session(recording.session);
    activity_end(BufferFate::unused);
    resume_eager();
    return false;
  }
  recording.watch.begin(*api, recording.subscription, recording.last_tick_ns);
  recording.loss = {nullptr, true, true, false};
  g_recording = recording;
  *armed = {};
  fill_armed(request, recording, armed);
  return true;
}

bool capture_tick(std::uint32_t* reason, const char** text) {
  Recording& recording = g_recording;
  if (cupti_is_lost()) {
    *reason = PILLION_DISARM_CUPTI_FATAL;
    return false;
  }
  (void)flush_if_calm(recording, cupti::kFlushComplete, FlushFor::tick);
  g_stamp_clock.tick();
  const std::uint64_t now = monotonic_ns();
  adapt_sampler(recording, now);
  activity_retry(*recording.session, own_tid());
  python_retry(*recording.session, own_tid());
  switch_module_profiled(recording);
  (void)g_keeper.replay(g_modules, own_tid());
  set_gauge(recording.session->counters, &pillion_counters::modules_evicted, g_keeper.evicted());
  recording.loss = recording.watch.look(watched_counts(*recording.session), now);
  if (recording.loss.text == nullptr) return true;
  *reason = PILLION_DISARM_CLOBBERED;
  *text = recording.loss.text;
  return false;
}

std::uint32_t capture_flush(bool forced) {
  if (cupti_is_lost()) return cupti::kErrorNotInitialized;
  const cupti::Result result =
      flush_if_calm(g_recording, forced ? cupti::kFlushForced : cupti::kFlushComplete, FlushFor::request);
  activity_retry(*g_recording.session, own_tid());
  python_retry(*g_recording.session, own_tid());
  add_recorded_launches(*g_recording.session);
  return result;
}

std::uint32_t capture_disarm(bool finalize, std::uint32_t may_wait_ms) {
  Recording& recording = g_recording;
  end_session(recording.session);
  const RegistrationWatch::Loss& loss = recording.loss;
  std::uint32_t residue = PILLION_RESIDUE_FINALIZED;  // what CUPTI does itself when it meets a fatal error
  if (cupti_is_lost()) {
    note_finalized_elsewhere();
  } else {
    // The kinds belong to whoever has taken the registration.
    const std::uint32_t kinds = loss.buffers_ours ? recording.subscription.kind_count : 0;
    if (loss.subscription_ours) stop_module_profiled(recording);
    residue = detach({recording.api, recording.subscription.subscriber, recording.subscription.kinds, kinds,
                      loss.text == nullptr, loss.buffers_ours, loss.subscription_ours, &g_finalize_budget},
                     finalize, may_wait_ms);
    if (loss.finalised) note_finalized_elsewhere();
  }
  activity_end(fate_of_buffers(residue, loss));
  if (loss.text == nullptr) resume_eager();  // not against another client
  recording.session = nullptr;
  return residue;
}

void capture_cuda_is_starting() { note_cuda_is_starting(); }

void capture_start_eager() { start_eager(); }

void capture_libraries_changed() { python_look_again(); }

std::uint32_t capture_python(pillion_python* out) { return python_state(out); }

bool capture_context_exists() { return cuda_context_exists(); }

std::uint32_t capture_driver_version() { return may_call_cuda() ? cuda_driver_version() : 0; }

std::uint32_t capture_cupti_version() {
  const CuptiApi* api = cupti_loaded();
  return api != nullptr ? api->version : 0;
}

const char* capture_cupti_path() {
  const CuptiApi* api = cupti_loaded();
  return api != nullptr ? api->path : "";
}

void capture_after_fork_in_child() {
  g_inert.store(true, std::memory_order_relaxed);
  g_session.store(nullptr, std::memory_order_relaxed);
  forget_detach_in_child();
}

}  // namespace pillion::shim
