// SPDX-License-Identifier: Apache-2.0
#include "pipeline/injections.h"

#include <chrono>
#include <condition_variable>
#include <filesystem>
#include <utility>

#include "base/log.h"
#include "discovery/process_survey.h"
#include "inject/proc_text.h"

namespace pillion::pipeline {
namespace {

constexpr std::chrono::milliseconds kLookEvery{1'000};
constexpr std::size_t kViewsMax = 256;

std::string folder_of(std::uint32_t pid) { return "/proc/" + std::to_string(pid); }

std::string program_of(std::uint32_t pid) {
  std::error_code error;
  return std::filesystem::read_symlink(folder_of(pid) + "/exe", error).string();
}

// Its driver will load the shim by itself, inside cuInit: a second one must not come first.
bool is_prepared(std::uint32_t pid) {
  const std::string environment = inject::read_proc_text(folder_of(pid) + "/environ");
  constexpr std::string_view kVariable = "CUDA_INJECTION64_PATH=";
  for (std::size_t at = 0; at < environment.size();) {
    const std::string_view entry(environment.c_str() + at);
    if (entry.starts_with(kVariable) && entry.find("libpillion.so") != std::string_view::npos) return true;
    at += entry.size() + 1;
  }
  return false;
}

// A path in the process's own root, which may be another than ours.
std::string seen_from_here(std::uint32_t pid, const std::string& socket) {
  std::error_code error;
  const std::string there = folder_of(pid) + "/root" + socket;
  if (!socket.starts_with('/') || std::filesystem::equivalent(socket, there, error)) return socket;
  return there;
}

// What may be otherwise at the next look: the program loads CUDA later, a debugger lets go.
bool may_change(inject::RefusalReason reason) {
  using inject::RefusalReason;
  return reason == RefusalReason::no_cuda || reason == RefusalReason::traced ||
         reason == RefusalReason::injecting || reason == RefusalReason::not_a_target;
}

// Of a refusal, what a recording need not wait for. A process that is not there has ended, which is another
// end.
bool is_for_good(inject::RefusalReason reason) {
  using inject::RefusalReason;
  return reason == RefusalReason::traced || (!may_change(reason) && reason != RefusalReason::no_process);
}

}  // namespace

void Injections::start() {
  thread_ = std::jthread([this](std::stop_token stop) { run(std::move(stop)); });
}

void Injections::stop() {
  thread_.request_stop();
  if (thread_.joinable()) thread_.join();
}

void Injections::run(std::stop_token stop) {
  std::mutex mutex;
  std::condition_variable_any stopped;
  while (!stop.stop_requested()) {
    look();
    std::unique_lock lock(mutex);
    stopped.wait_for(lock, stop, kLookEvery, [] { return false; });
  }
}

void Injections::look() {
  if (config_.pid) return consider(*config_.pid);
  for (const auto& process : discovery::survey_processes().cuda) {
    if (!process.has_shim) consider(process.pid);
  }
}

void Injections::consider(std::uint32_t pid) {
  const Program program{pid, inject::process_start_time("/proc", pid), program_of(pid)};
  const auto known = done_.find(program);
  if (known == done_.end()) note_end(std::nullopt);
  if (program.start_time == 0 || (known != done_.end() && known->second) || is_prepared(pid)) return;
  InjectionView view;
  view.pid = pid;
  const auto found = inject::examine(pid);
  if (!found) {
    view.outcome = "refused";
    view.text = found.error().message();
    if (known == done_.end()) log(LogLevel::warning, "not injected: " + view.text);
    if (is_for_good(found.error().kind)) note_end(GivenUp{true, view.text});
    return keep(program, std::move(view), !may_change(found.error().kind));
  }
  note_end(std::nullopt);
  view.comm = found->comm;
  if (found->resident) {
    view.outcome = inject::status_name(inject::InjectionStatus::already_there);
    view.library = found->resident->path;
    view.socket = seen_from_here(pid, found->resident->socket);
    view.text = "the shim is there already and listens at " + view.socket;
    if (view.socket.empty()) {
      view.text = "the shim is there already, but listens nowhere";
      note_end(GivenUp{true, "process " + std::to_string(pid) + " (" + found->comm +
                                 ") has the shim, but without a socket: it has to be started again"});
    }
    tell(*found, view.socket);
    return keep(program, std::move(view), true);
  }
  inject_into(*found, view);
  const bool again = view.outcome == inject::status_name(inject::InjectionStatus::in_progress);
  keep(program, std::move(view), !again);
}

void Injections::inject_into(const inject::Examination& found, InjectionView& view) {
  const inject::InjectionOutcome outcome = inject::inject(found, config_.settings);
  const bool injected = outcome.status == inject::InjectionStatus::injected;
  view.outcome = inject::status_name(outcome.status);
  view.text = outcome.text;
  view.socket = outcome.socket;
  view.library = outcome.library;
  view.cupti = outcome.cupti;
  view.stopped_ns = outcome.stopped_ns;
  log(injected ? LogLevel::info : LogLevel::warning, outcome.text);
  if (injected) tell(found, outcome.socket);
  if (outcome.status == inject::InjectionStatus::failed) note_end(GivenUp{false, outcome.text});
}

void Injections::tell(const inject::Examination& found, const std::string& socket) {
  if (!socket.starts_with('/') && !socket.starts_with('@')) return;
  found_({socket, found.pid_namespace, found.inner_pid, found.start_time}, found.uid);
}

void Injections::keep(const Program& program, InjectionView view, bool final) {
  done_[program] = final;
  if (done_.size() > kViewsMax) {
    std::erase_if(done_, [](const auto& item) {
      return inject::process_start_time("/proc", item.first.pid) != item.first.start_time;
    });
  }
  const std::lock_guard lock(mutex_);
  views_[program] = std::move(view);
  if (views_.size() > kViewsMax) views_.erase(views_.begin());
}

void Injections::note_end(std::optional<GivenUp> end) {
  const std::lock_guard lock(mutex_);
  given_up_ = std::move(end);
}

std::optional<GivenUp> Injections::given_up() const {
  const std::lock_guard lock(mutex_);
  return config_.pid ? given_up_ : std::nullopt;
}

std::vector<InjectionView> Injections::views() const {
  const std::lock_guard lock(mutex_);
  std::vector<InjectionView> views;
  for (const auto& [program, view] : views_) views.push_back(view);
  return views;
}

}  // namespace pillion::pipeline
