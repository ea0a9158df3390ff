// SPDX-License-Identifier: Apache-2.0
#include "control_session.h"

#include <unistd.h>

#include <cstring>

#include "bounded_text.h"
#include "capture.h"
#include "capture_step.h"
#include "capture_thread.h"
#include "control_messages.h"
#include "maps_watch.h"
#include "shim_log.h"
#include "start_hold.h"
#include "system_calls.h"

namespace pillion::shim {
namespace {

constexpr std::uint64_t kMs = 1'000'000;
constexpr std::uint64_t kHousekeepingNs = 100 * kMs;
constexpr std::uint64_t kStoodStillNs = 1'000 * kMs;
constexpr std::uint64_t kImpatientNs = 2'000 * kMs;
constexpr int kMessagesPerWake = 64;
constexpr std::uint32_t kDefaultDeadlineMs = 15'000;
constexpr std::uint32_t kFinalizeWaitMs = 500;  // "asleep again within 1 s" includes it
constexpr std::uint32_t kCloseWaitMs = 50;
constexpr std::uint64_t kThreadEndNs = 200 * kMs;
constexpr std::uint32_t kNotInitialized = 15;  // CUPTI_ERROR_NOT_INITIALIZED

}  // namespace

void ControlSession::drain(std::uint32_t reason, bool flush_first, bool finalize) {
  disarm_reason_ = reason;
  state_ = CaptureState::draining;
  waiting_since_ = monotonic_ns();
  capture_order_disarm({flush_first, finalize, finalize ? kFinalizeWaitMs : 0});
}

void ControlSession::lose_peer() {
  peer_.close();
  release_program();
  armed_by_peer_ = false;
  for (Flush& flush : flushes_) flush.wanted = false;
  maps_again_ = false;
  maps_sent_generation_ = 0;
  release_maps();
  if (state_ == CaptureState::arming || state_ == CaptureState::armed) {
    drain(PILLION_DISARM_PEER_GONE, false, finalize_unasked());
  }
}

void ControlSession::begin_exit() {
  exiting_ = true;
  release_program();
  if (state_ == CaptureState::arming || state_ == CaptureState::armed)
    drain(PILLION_DISARM_EXIT, true, false);
}

SessionMemory* ControlSession::arm_memory(const pillion_arm& arm) {
  char problem[128];
  SessionMemory* memory = open_memory({in_.fds[0], in_.fds[1], in_.fds[2]}, arm, problem);
  if (memory == nullptr) refuse(PILLION_REFUSAL_MEMORY, arm.generation, problem);
  return memory;
}

// The capture thread hangs in a call of CUPTI's, and which one is worth knowing.
void ControlSession::refuse_in_step(std::uint32_t reason, std::uint64_t generation, const char* text) {
  char whole[sizeof(pillion_refused::text)] = {};
  const char* step = g_capture_step.load(std::memory_order_relaxed);
  BoundedText(whole).add(text).add(*step != '\0' ? ": it is in " : "").add(step);
  refuse(reason, generation, whole);
}

void ControlSession::on_arm() {
  pillion_arm arm{};
  arm.detach = PILLION_DISARM_FINALIZE;
  std::memcpy(&arm, in_.bytes, in_.size < sizeof arm ? PILLION_ARM_BYTES_1_0 : sizeof arm);
  const char* problem = check_arm(arm);
  if (problem != nullptr) return refuse(PILLION_REFUSAL_BAD_MESSAGE, arm.generation, problem);
  if (exiting_) return refuse(PILLION_REFUSAL_INERT, arm.generation, "the process is ending");
  if (state_ == CaptureState::undoing) {
    return refuse_in_step(PILLION_REFUSAL_DEADLINE, arm.generation,
                          "an earlier arming has still not returned");
  }
  if (state_ != CaptureState::asleep) {
    return refuse_in_step(PILLION_REFUSAL_BAD_MESSAGE, arm.generation,
                          "ARM: an earlier session has not ended");
  }
  memory_ = arm_memory(arm);
  if (memory_ == nullptr) return;
  arm.kinds &= PILLION_KIND_ALL;
  if (arm.deadline_ms == 0) arm.deadline_ms = kDefaultDeadlineMs;
  arm_ = arm;
  // Snapshots may come before the maps that go with ARMED: let them carry a generation that exists.
  if (peer_.maps_sent()) static_cast<void>(read_maps());
  const CaptureRequest request{arm.generation,
                               arm.kinds,
                               arm.sample_permyriad,
                               arm.sample_mib_per_s,
                               arm.stack_bytes_max,
                               &memory_->events,
                               &memory_->stacks,
                               static_cast<pillion_region_header*>(memory_->arena_region.base),
                               memory_->arena_region.bytes,
                               memory_->counters};
  if (!capture_start(request)) {
    close_memory(memory_, 0);
    memory_ = nullptr;
    return refuse(PILLION_REFUSAL_MEMORY, arm.generation, "no thread could be started");
  }
  waiting_since_ = monotonic_ns();
  arming_deadline_ = waiting_since_ + arm.deadline_ms * kMs;
  advanced_ = waiting_since_;
  state_ = CaptureState::arming;
  armed_by_peer_ = true;
}

void ControlSession::on_disarm() {
  pillion_disarm disarm{};
  std::memcpy(&disarm, in_.bytes, sizeof disarm);
  if (state_ != CaptureState::arming && state_ != CaptureState::armed) return;
  if (disarm.generation != arm_.generation) return;  // of a session that ended by itself meanwhile
  drain(PILLION_DISARM_ASKED, false, (disarm.flags & PILLION_DISARM_FINALIZE) != 0);
}

void ControlSession::after_arming(std::uint64_t now) {
  const CapturePhase phase = capture_phase();
  if (phase == CapturePhase::armed) {
    state_ = CaptureState::armed;
    lease_deadline_ = now + arm_.lease_ms * kMs;
    next_housekeeping_ = now;
    pillion_armed armed = capture_armed();
    begin_message(&armed.header, PILLION_ARMED, sizeof armed);
    armed.generation = arm_.generation;
    armed.lease_ms = arm_.lease_ms;
    armed.detach = arm_.detach & PILLION_DISARM_FINALIZE;
    armed.events_rings = memory_->events.ring_count();
    armed.events_ring_bytes = memory_->events.ring_bytes();
    armed.stacks_rings = memory_->stacks.ring_count();
    armed.stacks_ring_bytes = memory_->stacks.ring_bytes();
    peer_.send(&armed, sizeof armed);
    python_sent_ = 0;
    send_python_if_new();
    maps_sent_generation_ = 0;
    send_maps_if_new();
  } else if (phase == CapturePhase::refused) {
    if (!capture_through(now)) return;
    pillion_refused refused = capture_refused();
    begin_message(&refused.header, PILLION_REFUSED, sizeof refused);
    refused.generation = arm_.generation;
    finish();
    peer_.send(&refused, sizeof refused);
  } else if (now >= arming_deadline_) {
    log_line("arming missed its deadline of ms", "", arm_.deadline_ms);
    state_ = CaptureState::undoing;
    const bool finalize = finalize_unasked();
    capture_order_disarm({false, finalize, finalize ? kFinalizeWaitMs : 0});
    refuse_in_step(PILLION_REFUSAL_DEADLINE, arm_.generation,
                   "CUPTI did not finish arming in time; it will be undone");
  }
}

// Whether the capture thread has said its last word and is gone, so that nothing of it stays when the answer
// says that it is over; but nobody waits for it for long.
bool ControlSession::capture_through(std::uint64_t now) {
  const CapturePhase phase = capture_phase();
  if (phase != CapturePhase::disarmed && phase != CapturePhase::refused) return false;
  if (through_since_ == 0) through_since_ = now;
  return capture_thread_ended() || now - through_since_ > kThreadEndNs;
}

// The capture thread is through: gives everything back and says so to whom it concerns.
void ControlSession::finish() {
  const std::uint32_t residue = capture_phase() == CapturePhase::disarmed ? capture_residue() : 0;
  const bool tell = state_ == CaptureState::draining && armed_by_peer_;
  FlushAnswer last{};
  char text[sizeof(pillion_disarmed::text)] = {};
  publish_counters(memory_, capture_last_tick_ns());
  std::uint32_t unanswered = 0;
  if (flush_under_way_ && capture_take_flush(&last)) {
    answer_flush(flushes_[unanswered++], last.begun_ns, last.cupti_result);
  }
  for (; unanswered < flush_count_; ++unanswered) answer_flush(flushes_[unanswered], 0, kNotInitialized);
  flush_count_ = 0;
  flush_under_way_ = false;
  close_memory(memory_, kCloseWaitMs);
  memory_ = nullptr;
  BoundedText(text).add(capture_lost_text());
  capture_forget();
  through_since_ = 0;
  state_ = CaptureState::asleep;
  if (peer_.open() && peer_.maps_sent()) release_maps();
  if (tell) {
    pillion_disarmed disarmed{};
    begin_message(&disarmed.header, PILLION_DISARMED, sizeof disarmed);
    disarmed.generation = arm_.generation;
    disarmed.reason = disarm_reason_;
    disarmed.residue = residue;
    disarmed.disarmed_ns = monotonic_ns();
    std::memcpy(disarmed.text, text, sizeof text);
    peer_.send(&disarmed, sizeof disarmed);
  }
  armed_by_peer_ = false;
  log_line("disarmed, reason", "", disarm_reason_);
}

void ControlSession::answer_flushes() {
  FlushAnswer answer{};
  if (flush_under_way_ && capture_take_flush(&answer)) {
    publish_counters(memory_, capture_last_tick_ns());
    answer_flush(flushes_[0], answer.begun_ns, answer.cupti_result);
    --flush_count_;
    std::memmove(flushes_, flushes_ + 1, flush_count_ * sizeof flushes_[0]);
    flush_under_way_ = false;
  }
  if (!flush_under_way_ && flush_count_ > 0 && state_ == CaptureState::armed) {
    flush_under_way_ = capture_order_flush(flushes_[0].forced);
    waiting_since_ = monotonic_ns();
  }
}

void ControlSession::housekeeping(std::uint64_t now) {
  if (now < next_housekeeping_) return;
  next_housekeeping_ = now + kHousekeepingNs;
  publish_counters(memory_, capture_last_tick_ns());
  memory_->events.release_dead_holders();
  memory_->stacks.release_dead_holders();
  if (capture_take_libraries_changed()) send_maps_if_new();
  send_python_if_new();
}

void ControlSession::advance(std::uint64_t now) {
  if (peer_.open() && peer_.broken()) lose_peer();
  if (maps_again_ && peer_.open() && peer_.maps_sent()) {
    maps_again_ = false;
    send_maps_if_new();
  }
  if (state_ == CaptureState::arming) {
    // Looked at each 50 ms at least: else the process was stopped, and CUPTI could do nothing meanwhile.
    if (now - advanced_ > kStoodStillNs) arming_deadline_ += now - advanced_;
    advanced_ = now;
    after_arming(now);
  }
  if (state_ == CaptureState::armed) {
    answer_flushes();
    housekeeping(now);
    const std::uint32_t lost = capture_lost();
    if (lost != 0) {
      drain(lost, false, false);
    } else if (now >= lease_deadline_) {
      drain(PILLION_DISARM_LEASE, false, finalize_unasked());
    }
  }
  if (state_ == CaptureState::draining || state_ == CaptureState::undoing) {
    if (capture_through(now)) finish();
  }
}

int ControlSession::patience_ms(std::uint64_t now) const {
  // An answer that is this late may never come: then looking for it must not cost a thousand wake-ups a
  // second.
  const bool soon = now - waiting_since_ < kImpatientNs;
  switch (state_) {
    case CaptureState::asleep:
      return -1;
    case CaptureState::arming:
    case CaptureState::draining:
      return soon ? 1 : 50;
    case CaptureState::armed:
      return flush_under_way_ && soon ? 1 : 50;
    case CaptureState::undoing:
      return 100;
  }
  return -1;
}

void ControlSession::on_readable() {
  for (int i = 0; i < kMessagesPerWake && peer_.open(); ++i) {
    const Receive got = peer_.receive(&in_);
    if (got == Receive::nothing) return;
    if (got == Receive::gone || !take_message()) lose_peer();
    close_attached(&in_);
  }
}

bool ControlSession::take_message() {
  char problem[192];
  switch (check_message(in_.bytes, in_.size, problem)) {
    case Verdict::sound:
      lease_deadline_ = monotonic_ns() + arm_.lease_ms * kMs;
      on_message(reinterpret_cast<const pillion_message_header*>(in_.bytes)->type);
      return true;
    case Verdict::unknown:
      log_line("skipped a message of an unknown type");
      return true;
    case Verdict::bad:
      refuse(PILLION_REFUSAL_BAD_MESSAGE, 0, problem);
      return true;
    case Verdict::version:
      refuse(PILLION_REFUSAL_VERSION, 0, problem);
      return false;
    case Verdict::garbage:
      refuse(PILLION_REFUSAL_BAD_MESSAGE, 0, problem);
      return false;
  }
  return false;
}

}  // namespace pillion::shim
