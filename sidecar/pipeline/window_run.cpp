// SPDX-License-Identifier: Apache-2.0
#include "pipeline/window_run.h"

#include <algorithm>
#include <future>
#include <utility>

#include "base/clock.h"
#include "base/log.h"
#include "profile/quality.h"

namespace pillion::pipeline {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

// Longer than arming may take at the shim: then it is its answer that is missing.
constexpr milliseconds kAnswerPatience{1'000};
// Those that are armed do not wait longer than this for one that is not; it is in the window from when it is.
constexpr milliseconds kArmedPatience{6'000};
constexpr milliseconds kLook{100};  // between looks at what rings no bell
// A process that executes another program closes its socket and comes back with another.
constexpr std::uint64_t kBackWithinNs = 1'000'000'000;
// What is still under way at the window's end may come in for so long. Executions that ended in time but lie
// in a buffer that CUPTI has not given back come with one of the flushes; a kernel that runs on belongs to a
// later window. A longer wait would only help those that end just then; the others are named as pending.
constexpr milliseconds kGrace{400};
constexpr milliseconds kStackGrace{1'000};  // for snapshots that are being unwound; nothing waits longer
constexpr milliseconds kBetweenFlushes{40};
constexpr milliseconds kFlushDeadline{500};
// So few launches may all be still running, or be captured into a graph.
constexpr std::uint64_t kLaunchesWithoutRecords = 64;

std::int64_t wall_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

}  // namespace

WindowArming WindowRun::arming() {
  return ask(stages_.attach_loop,
             [&attachments = stages_.attachments, id = id_] { return attachments.arming(id); })
      .value_or(WindowArming{});
}

http::ServiceResult WindowRun::run(const std::stop_token& stop, const http::ServiceError& nothing_attached) {
  const auto begun = ask(stages_.attach_loop, [&attachments = stages_.attachments, id = id_,
                                               pid = request_.pid, wish = request_.wish] {
    return attachments.begin_window(id, pid, wish).map([&] { return attachments.connected(); });
  });
  if (!begun)
    return tl::make_unexpected(http::ServiceError{http::ErrorCode::stopping, "pillion is ending", {}});
  if (!*begun) {
    return tl::make_unexpected(http::ServiceError{
        http::ErrorCode::settings_in_force,
        begun->error().object +
            " is being profiled for another request with other settings: " + begun->error().detail,
        "a process is recorded with one set of settings at a time: ask again without them and take what is "
        "in "
        "force (the profile says it), or when the other request has ended"});
  }
  const std::size_t connected = **begun;
  const auto end_window = [this] {
    (void)ask(stages_.attach_loop, [&attachments = stages_.attachments, id = id_] {
      attachments.end_window(id);
      return true;
    });
  };
  if (arming().selected == 0) {
    end_window();
    if (connected == 0 || !request_.pid) return tl::make_unexpected(nothing_attached);
    return tl::make_unexpected(http::ServiceError{
        http::ErrorCode::unknown_pid, "no attached process has pid " + std::to_string(*request_.pid),
        "/status lists the attached processes"});
  }
  wait_for_arming(stop);
  const auto armed = arming();
  if (armed.armed == 0 && armed.waiting == 0 && armed.asleep == 0) {
    end_window();
    return tl::make_unexpected(refusal(armed));
  }
  if (const auto error = open()) {
    end_window();
    return tl::make_unexpected(*error);
  }
  if (request_.end_with_targets) log(LogLevel::info, "recording");
  (void)ask(stages_.attach_loop, [&attachments = stages_.attachments] {
    attachments.release_programs();
    return true;
  });
  wait_for_end(stop);
  settle();
  const auto last = arming();
  auto result = answer(last);
  end_window();
  return result;
}

void WindowRun::wait_for_arming(const std::stop_token& stop) {
  const auto begin = steady_clock::now();
  const milliseconds patience = stages_.arm_timeout + kAnswerPatience;
  while (!stop.stop_requested()) {
    const auto heard = stages_.bell.rings();
    const auto now = arming();
    const auto deadline = begin + (now.armed != 0 ? std::min(patience, kArmedPatience) : patience);
    if (now.waiting == 0 || steady_clock::now() >= deadline) return;
    stages_.bell.wait_until(heard, std::min(deadline, steady_clock::now() + kLook), stop);
  }
}

// The drain thread says when the window began: what it had drained by then is not in it.
std::optional<http::ServiceError> WindowRun::open() {
  clock_steps_ = stages_.drain.clock_watch().look();
  const auto duration_ns = static_cast<std::uint64_t>(std::chrono::nanoseconds(request_.duration).count());
  const bool idle = request_.type == http::ProfileType::idle;
  const WindowScope scope{id_, request_.pid, request_.device, duration_ns, idle, 0, 0};
  const auto t0_ns =
      ask(stages_.drain.loop(), [&drain = stages_.drain, scope] { return drain.open_window(scope); });
  if (!t0_ns) {
    // It may still run: then nobody closes what it opens but this.
    (void)stages_.drain.loop().post([&drain = stages_.drain, id = id_] { drain.abandon_window(id); });
    return http::ServiceError{
        http::ErrorCode::stopping, "the drain thread does not answer, or pillion is ending", {}};
  }
  t0_ns_ = *t0_ns;
  t1_ns_ = t0_ns_ + duration_ns;
  wall_t0_ns_ = wall_ns() - static_cast<std::int64_t>(monotonic_ns() - t0_ns_);
  return std::nullopt;
}

std::optional<std::uint64_t> WindowRun::all_ended_at() {
  if (arming().selected != 0) {
    nobody_since_ns_.reset();
    return std::nullopt;
  }
  const auto now = monotonic_ns();
  if (!nobody_since_ns_) nobody_since_ns_ = now;
  const auto& complete = request_.targets_complete;
  const bool none_comes =
      complete.stop_possible() ? complete.stop_requested() : now - *nobody_since_ns_ >= kBackWithinNs;
  return none_comes ? nobody_since_ns_ : std::nullopt;
}

void WindowRun::wait_for_end(const std::stop_token& stop) {
  const std::stop_callback wake(request_.targets_complete, [&bell = stages_.bell] { bell.ring(); });
  const steady_clock::time_point deadline{std::chrono::nanoseconds(t1_ns_)};  // it is CLOCK_MONOTONIC
  while (!stop.stop_requested() && steady_clock::now() < deadline) {
    const auto heard = stages_.bell.rings();
    if (request_.end_with_targets) {
      if (const auto ended = all_ended_at()) {
        t1_ns_ = std::min(t1_ns_, *ended);
        break;
      }
    }
    const auto look = nobody_since_ns_ ? std::min(deadline, steady_clock::now() + kLook) : deadline;
    stages_.bell.wait_until(heard, look, stop);
  }
  // A recording without a duration is meant to be ended: by a signal, or with its target.
  cut_short_ = stop.stop_requested() && !request_.end_with_targets;
  t1_ns_ = std::min(t1_ns_, monotonic_ns());
  (void)ask(stages_.drain.loop(), [&drain = stages_.drain, id = id_, t1 = t1_ns_] {
    drain.end_window(id, t1);
    return true;
  });
}

// Whether every process did.
bool WindowRun::flush_once(milliseconds deadline) {
  auto answered = std::make_shared<std::promise<bool>>();
  auto future = answered->get_future();
  const bool posted =
      stages_.attach_loop.post([&attachments = stages_.attachments, id = id_, deadline, answered] {
        attachments.flush(id, false, deadline, [answered](bool all) { answered->set_value(all); });
      });
  return posted && future.wait_for(deadline + kLook) == std::future_status::ready && future.get();
}

void WindowRun::settle() {
  const auto begin = steady_clock::now();
  const auto waited = [begin] {
    return std::chrono::duration_cast<milliseconds>(steady_clock::now() - begin);
  };
  for (;;) {
    flushed_ = flush_once(std::clamp(kStackGrace - waited(), kBetweenFlushes, kFlushDeadline));
    const auto open = ask(
        stages_.drain.loop(), [&drain = stages_.drain, id = id_] { return drain.settle(id); },
        std::max(kStackGrace - waited(), kFlushDeadline));
    const bool pending = open && open->open.launches_pending != 0 && waited() < kGrace;
    // Of a process that is stopped, CUPTI may hold what its launches wait for.
    const bool held = !flushed_ && open && open->open.launches_pending != 0;
    const bool unsettled = held || !open || !open->read_all || !open->open.executions_settled();
    if (!pending && (!unsettled || waited() >= kStackGrace)) {
      unsettled_ = unsettled;
      return;
    }
    stages_.bell.wait_until(stages_.bell.rings(), steady_clock::now() + kBetweenFlushes, {});
  }
}

http::ServiceError WindowRun::refusal(const WindowArming& arming) const {
  for (const auto& refused : arming.refused) {
    if (refused.reason != PILLION_REFUSAL_SUBSCRIBER_HELD) continue;
    const std::string holder = refused.holder.empty() ? "unknown" : refused.holder;
    return {http::ErrorCode::subscriber_held, "another CUPTI client holds the subscriber: " + holder,
            "CUPTI takes one subscriber a process. A process that has used torch.profiler once keeps it for "
            "good, "
            "also after the profiler's end, unless TEARDOWN_CUPTI=1 is in its environment when it starts; "
            "any other "
            "profiler must end first. Then ask again"};
  }
  if (!arming.refused.empty()) {
    const auto& refused = arming.refused.front();
    return {http::ErrorCode::refused,
            "refused by the shim: " + session::refusal_name(refused.reason) + ": " + refused.text,
            {}};
  }
  if (arming.skipped != 0) return {http::ErrorCode::refused, arming.skipped_text, {}};
  return {http::ErrorCode::target_gone,
          "every selected process ended, or closed its connection, before it could be armed",
          "a program that closes all its descriptors is attached again at once: ask again"};
}

std::optional<http::ServiceError> WindowRun::unknown_device(const std::vector<WindowPart>& parts) const {
  if (!request_.device) return std::nullopt;
  std::string known;
  for (const auto& part : parts) {
    for (const auto& [number, device] : part.data.devices) {
      if (number == *request_.device) return std::nullopt;
      known += (known.empty() ? "" : ", ") + std::to_string(number);
    }
  }
  if (known.empty()) return std::nullopt;  // none has said yet which devices it has
  return http::ServiceError{http::ErrorCode::bad_parameter,
                            "no attached process has device " + std::to_string(*request_.device),
                            "devices by their CUDA number: " + known};
}

http::ServiceResult WindowRun::answer(const WindowArming& arming) {
  auto closed =
      ask(stages_.drain.loop(), [&drain = stages_.drain, id = id_, t1 = t1_ns_, unsettled = unsettled_] {
        return drain.close_window(id, t1, unsettled);
      });
  if (!closed)
    return tl::make_unexpected(http::ServiceError{http::ErrorCode::stopping, "pillion is ending", {}});
  std::vector<WindowPart>* const parts = &closed->parts;
  std::uint64_t launches = 0;
  std::uint64_t executions = 0;
  bool pending = false;
  bool came_before = false;
  for (const auto& part : *parts) {
    pending |= part.data.counters.pending != 0;
    came_before |= part.quality.executions_before != 0;
    const auto& counters = part.data.counters;
    launches += counters.launches - counters.launches_failed - counters.launches_captured;
    // Whatever CUPTI gave, also for another device than the one asked for, and what was dropped on the way.
    executions += part.data.counters.executions + part.quality.counters.executions;
  }
  if (auto error = unknown_device(*parts)) return tl::make_unexpected(*error);
  if (parts->empty() && !arming.refused.empty()) return tl::make_unexpected(refusal(arming));
  if (parts->empty() && arming.waiting != 0 && arming.asleep == 0) {
    return tl::make_unexpected(http::ServiceError{
        http::ErrorCode::refused,
        "no selected process was armed before the window's end; " + std::to_string(arming.waiting) +
            " had not answered",
        "a process that is stopped or starved answers when it runs again; ask again, or for "
        "more seconds"});
  }
  const bool ended_early = std::any_of(
      parts->begin(), parts->end(), [](const WindowPart& part) { return !part.quality.ended_early.empty(); });
  if (executions == 0 && launches >= kLaunchesWithoutRecords && !ended_early && flushed_) {
    return tl::make_unexpected(http::ServiceError{
        http::ErrorCode::no_gpu_records,
        std::to_string(launches) + " launches were seen but CUPTI gave no record of their execution",
        profile::why_no_records(pending, came_before)});
  }
  BuildRequest request;
  request.start_wall_ns = wall_t0_ns_;
  request.t0_ns = t0_ns_;
  request.t1_ns = t1_ns_;
  request.type = request_.type;
  request.format = request_.format;
  request.parts = std::move(*parts);
  request.idle = std::move(closed->idle);
  request.refused = arming.refused;
  request.residues = arming.residues;
  request.skipped = arming.skipped;
  request.cut_short = cut_short_;
  request.unsettled = unsettled_;
  request.clock_steps = stages_.drain.clock_watch().look() - clock_steps_;
  auto rendered = stages_.build.render(std::move(request));
  if (!rendered) {
    return tl::make_unexpected(http::ServiceError{http::ErrorCode::internal, rendered.error().message(), {}});
  }
  http::ServiceReply reply;
  reply.body = std::move(rendered->body);
  reply.empty_because = std::move(rendered->empty_because);
  return reply;
}

}  // namespace pillion::pipeline
