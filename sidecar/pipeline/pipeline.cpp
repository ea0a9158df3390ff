// SPDX-License-Identifier: Apache-2.0
#include "pipeline/pipeline.h"

#include <signal.h>
#include <sys/resource.h>

#include <cerrno>

#include <utility>

#include "base/clock.h"
#include "base/log.h"
#include "commands/injection_settings.h"
#include "commands/program_files.h"
#include "discovery/neighbours.h"
#include "discovery/process_survey.h"
#include "inject/examination.h"
#include "pipeline/window_run.h"

namespace pillion::pipeline {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr milliseconds kBeat{500};
constexpr std::uint64_t kBeatLostNs = 5'000'000'000;
constexpr milliseconds kLook{200};
// A process that executes another program closes its socket and comes back with another.
constexpr milliseconds kWorkloadBackWithin{1'000};
// The containers of a pod do not start at once.
constexpr milliseconds kAloneFor{3'000};
constexpr milliseconds kDisarmPatience{700};

AttachConfig attach_config(const Options& options) {
  AttachConfig config;
  config.socket_dir = options.socket_dir;
  config.pid = options.pid;
  config.max_sessions = options.max_sessions;
  config.ring_budget_bytes = options.ring_budget_bytes;
  config.allow_uids.assign(options.allow_uids.begin(), options.allow_uids.end());
  config.linger = options.linger;
  config.arm.deadline_ms = static_cast<std::uint32_t>(options.arm_timeout.count());
  config.abstract_sockets = options.inject || options.pid.has_value();
  config.hold_programs = options.mode == Mode::record_command;
  auto& settings = config.arm.settings;
  settings.kinds = options.kinds;
  if (!options.python) settings.kinds &= ~static_cast<std::uint32_t>(PILLION_KIND_PYTHON);
  settings.sample_permyriad = options.sample_permyriad;
  settings.sample_mib_per_s = options.sample_mib_per_s;
  settings.stack_bytes_max = options.stack_bytes;
  settings.lease_ms = static_cast<std::uint32_t>(options.lease.count());
  settings.finalize = options.finalize == Finalize::automatic;
  settings.events_rings = options.events_rings;
  settings.events_ring_bytes = options.events_ring_kib << 10;
  settings.stacks_rings = options.stacks_rings;
  settings.stacks_ring_bytes = options.stacks_ring_kib << 10;
  return config;
}

bool process_has_gone(std::uint32_t pid) { return ::kill(static_cast<pid_t>(pid), 0) != 0 && errno == ESRCH; }

// Every file of every workload keeps a descriptor open, and so does every HTTP connection.
void raise_descriptor_limit() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= limit.rlim_max) return;
  limit.rlim_cur = limit.rlim_max;
  (void)::setrlimit(RLIMIT_NOFILE, &limit);
}

// Who named a process is told of that one.
std::string why_unseen(std::uint32_t pid) {
  const auto found = inject::examine(pid, {.force = true});
  if (!found) return found.error().message();
  const std::string who = "process " + std::to_string(pid) + " (" + found->comm + ")";
  if (!found->resident) {
    if (found->uses_cuda) return who + " runs without the shim: -inject loads it";
    return who + " does not use CUDA, or not yet: libcuda is not loaded";
  }
  const auto& socket = found->resident->socket;
  if (socket.empty()) {
    return who +
           " has the shim, but without a socket: it was forked from a program with one, or "
           "PILLION_SOCKET_DIR was missing when it called cuInit; it has to be started again";
  }
  return who + " has the shim, at " + socket +
         ": name its folder with -socket-dir, or add -inject, which finds it wherever it is";
}

}  // namespace

Result<void> Pipeline::start() {
  raise_descriptor_limit();
  auto attach_loop = EventLoop::create();
  if (!attach_loop) return tl::make_unexpected(attach_loop.error());
  auto drain_loop = EventLoop::create();
  if (!drain_loop) return tl::make_unexpected(drain_loop.error());
  attach_loop_ = std::move(*attach_loop);
  drain_ = std::make_unique<DrainThread>(std::move(*drain_loop), options_.drain_every, bell_,
                                         [this](TargetId target) {
                                           code_->forget(target);
                                           unwind_->forget(target);
                                         });
  code_ = std::make_unique<TargetCode>(
      [this](TargetId target) {
        (void)attach_loop_->post([this, target] { attachments_->request_maps(target); });
      },
      options_.mode == Mode::record_command);
  unwind_ = std::make_unique<UnwindThread>(*code_, files_, [this](UnwoundSnapshot unwound) {
    (void)drain_->loop().post([this, unwound] { drain_->on_unwound(unwound); });
  });
  build_ = std::make_unique<BuildThread>(*code_, files_, pod_from_environment());
  attachments_ =
      std::make_unique<Attachments>(*attach_loop_, attach_config(options_), *drain_, *code_, bell_);
  if (auto started = attachments_->start(); !started) return started;
  attach_beat_ns_ = monotonic_ns();
  attach_loop_->every(kBeat, [this] { attach_beat_ns_.store(monotonic_ns(), std::memory_order_relaxed); });
  unwind_->start();
  build_->start();
  drain_->start(*unwind_);
  attach_thread_ = std::thread([this] { attach_loop_->run(); });
  return options_.inject ? start_injections() : Result<void>{};
}

Result<void> Pipeline::start_injections() {
  auto settings = commands::injection_settings(commands::program_folder());
  if (!settings) return tl::make_unexpected(settings.error());
  settings->socket_directory = options_.socket_dir;
  injections_ = std::make_unique<Injections>(
      InjectionsConfig{options_.pid, std::move(*settings)},
      [this](const discovery::ShimAddress& address, std::uint32_t uid) {
        (void)attach_loop_->post([this, address, uid] { attachments_->add(address, uid); });
      });
  injections_->start();
  return {};
}

void Pipeline::stop() {
  if (stopped_.exchange(true) || !attach_loop_) return;
  if (injections_) injections_->stop();
  if (attach_thread_.joinable()) {
    (void)attach_loop_->post([this] { attachments_->stop(); });
    const auto deadline = steady_clock::now() + kDisarmPatience;
    while (steady_clock::now() < deadline) {
      const auto heard = bell_.rings();
      const auto armed = ask(*attach_loop_, [this] { return attachments_->armed(); });
      if (!armed || *armed == 0) break;
      bell_.wait_until(heard, steady_clock::now() + kLook, {});
    }
    attach_loop_->stop();
    attach_thread_.join();
  }
  // From here on no thread calls into another that has ended: the unwinder posts to the drain's loop, which
  // refuses.
  if (drain_) drain_->stop();
  if (unwind_) unwind_->stop();
  if (build_) build_->stop();
}

std::size_t Pipeline::connected() {
  return ask(*attach_loop_, [this] { return attachments_->connected(); }).value_or(0);
}

AttachReport Pipeline::report() {
  return ask(
             *attach_loop_, [this] { return attachments_->report(); }, milliseconds(1'000))
      .value_or(AttachReport{});
}

WaitOutcome Pipeline::wait_for_shim(std::stop_token stop) {
  const bool bounded = options_.wait_for_shim.count() > 0;
  const auto deadline = steady_clock::now() + options_.wait_for_shim;
  discovery::LastOneHere last_one(kAloneFor);
  while (!stop.stop_requested()) {
    const auto heard = bell_.rings();
    if (connected() > 0) return WaitOutcome::attached;
    if (options_.mode == Mode::record_attach && options_.pid && process_has_gone(*options_.pid)) {
      return WaitOutcome::gone;
    }
    if (options_.exit_with_workload && last_one.look(steady_clock::now())) return WaitOutcome::gone;
    if (const auto end = given_up()) return end->refused ? WaitOutcome::refused : WaitOutcome::failed;
    if (bounded && steady_clock::now() >= deadline) {
      return turned_away().empty() ? WaitOutcome::deadline : WaitOutcome::refused;
    }
    const auto look = steady_clock::now() + kLook;
    bell_.wait_until(heard, bounded ? std::min(look, deadline) : look, stop);
  }
  return WaitOutcome::stopped;
}

std::optional<GivenUp> Pipeline::given_up() {
  if (options_.mode != Mode::record_attach || !injections_) return std::nullopt;
  auto end = injections_->given_up();
  if (!end || !turned_away().empty()) return std::nullopt;
  const auto hopeless =
      ask(*attach_loop_, [this] { return attachments_->connected() == 0 && !attachments_->undecided(); });
  return hopeless.value_or(false) ? end : std::nullopt;
}

bool Pipeline::wait_for_workload_end(std::stop_token stop) {
  bool nobody = false;
  steady_clock::time_point nobody_since;
  while (!stop.stop_requested()) {
    const auto heard = bell_.rings();
    const auto now = steady_clock::now();
    const auto ended = ask(
        *attach_loop_, [this] { return attachments_->ever_attached() && attachments_->connected() == 0; });
    if (!ended.value_or(false)) {
      nobody = false;
    } else if (!nobody) {
      nobody = true;
      nobody_since = now;
    } else if (now - nobody_since >= kWorkloadBackWithin) {
      return true;
    }
    bell_.wait_until(heard, now + kLook, stop);
  }
  return false;
}

// Those that -pid asks for, where it does; by the pid that they have in their own namespace.
std::vector<TurnedAway> Pipeline::turned_away() {
  auto turned = report().turned_away;
  std::erase_if(turned, [this](const TurnedAway& one) { return options_.pid && one.pid != *options_.pid; });
  return turned;
}

std::string Pipeline::who_refused() {
  if (const auto end = given_up()) return end->text;
  std::string text;
  for (const auto& one : turned_away()) {
    text += (text.empty() ? "" : "\n") + ("the shim of process " + std::to_string(one.pid)) +
            " does not take this sidecar: " + one.text;
    if (one.reason == session::GoneReason::busy) {
      text += "; a shim has one sidecar at a time: end that one, or ask it for the profile";
    }
  }
  return text;
}

std::string Pipeline::what_was_seen() {
  const auto seen = report();
  std::string text = "socket directory " + options_.socket_dir + ": ";
  if (!seen.directory.exists) {
    text += seen.directory.error.empty() ? "does not exist" : seen.directory.error;
  } else {
    text += std::to_string(seen.directory.sockets) + " shim sockets, " +
            std::to_string(seen.directory.stale) + " of them left behind, " +
            std::to_string(seen.directory.other_names + seen.directory.not_sockets) + " other entries";
  }
  for (const auto& shim : seen.unaccepted) text += "\n" + shim;
  if (options_.mode == Mode::record_command) {
    return text + "\nno program of the command has called cuInit with the shim: does it use CUDA, and keep " +
           "CUDA_INJECTION64_PATH in its environment?";
  }
  return text + "\n" + (options_.pid ? why_unseen(*options_.pid) : discovery::survey_processes().text());
}

std::optional<http::ServiceError> Pipeline::not_taken(http::ProfileType type) const {
  if (http::is_taken(type)) return std::nullopt;
  return http::ServiceError{
      http::ErrorCode::not_available,
      std::string("this build takes no ") + http::to_string(type) + " profile",
      "type=gpu is the GPU profile, type=idle says why the GPU had nothing to do, type=sync "
      "which calls waited for it"};
}

http::ServiceResult Pipeline::profile(const http::ProfileRequest& request, std::stop_token stop) {
  if (auto error = not_taken(request.type)) return tl::make_unexpected(*error);
  http::ServiceError nothing{http::ErrorCode::no_shim, "no shim is attached", ""};
  if (connected() == 0) nothing.hint = what_was_seen();
  ++windows_taken_;
  WindowRun run({*attach_loop_, *attachments_, *drain_, *build_, bell_, options_.arm_timeout}, request,
                next_window_++);
  return run.run(stop, nothing);
}

http::Condition Pipeline::ready() {
  if (connected() > 0) return {};
  return {false, "no shim is attached; see /status"};
}

http::Condition Pipeline::alive() {
  const auto now = monotonic_ns();
  if (now - attach_beat_ns_.load(std::memory_order_relaxed) > kBeatLostNs)
    return {false, "the attach thread hangs"};
  if (now - drain_->beat_ns() > kBeatLostNs) return {false, "the drain thread hangs"};
  return {};
}

}  // namespace pillion::pipeline

namespace pillion {

std::unique_ptr<Runtime> make_runtime(const Options& options) {
  return std::make_unique<pipeline::Pipeline>(options);
}

}  // namespace pillion
