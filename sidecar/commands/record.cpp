// SPDX-License-Identifier: Apache-2.0
#include <unistd.h>

#include <atomic>
#include <cstdlib>

#include "commands/commands.h"
#include "commands/private_folder.h"
#include "commands/profile_output.h"
#include "commands/program_files.h"
#include "commands/recorder_lock.h"
#include "commands/stop_signals.h"
#include "commands/workload.h"

namespace pillion::commands {
namespace {

// "Until the target ends" needs some number; whoever records for longer has another problem.
constexpr std::chrono::hours kUntilTheEnd{24};
// For a workload to follow a signal that we passed on.
constexpr std::chrono::milliseconds kSignalledTime{1'500};
constexpr int kShellSignalBase = 128;

int fail_with(const Error& error, int code = kInternal) {
  log(LogLevel::error, error.message());
  return code;
}

// What ends a recording.
struct Ends {
  std::stop_token stop;  // a signal
  std::stop_token
      complete;  // the command has ended: no process will come any more; cannot be without a command
  std::stop_token either;  // requested with any of them
};

// What to say and return when no shim is there to be recorded.
int nothing_to_record(const Options& options, Runtime& runtime, WaitOutcome outcome,
                      const Workload* workload) {
  const auto ended = workload == nullptr ? std::nullopt : workload->end();
  switch (outcome) {
    case WaitOutcome::refused:
      log(LogLevel::error, runtime.who_refused());
      return kRefused;
    case WaitOutcome::failed:
      log(LogLevel::error, runtime.who_refused());
      return kInternal;
    case WaitOutcome::gone:
      log(LogLevel::error, "there is no process " + std::to_string(options.pid.value_or(0)));
      return kTargetGone;
    case WaitOutcome::stopped:
      log(LogLevel::error, ended ? "the workload " + ended->text() + " before its shim came" +
                                       (ended->failed() ? "" : ": did it use CUDA?")
                                 : "ended before a shim came: nothing to write");
      return ended ? kTargetGone : kNoShim;
    default:
      log(LogLevel::error, "no shim came within the time of -wait-for-shim\n" + runtime.what_was_seen());
      return kNoShim;
  }
}

// Waits for a shim, takes the profile, writes it.
int take_profile(const Options& options, Runtime& runtime, ProfileOutput& output, const Workload* workload,
                 const Ends& ends) {
  const auto outcome = runtime.wait_for_shim(ends.either);
  if (outcome != WaitOutcome::attached) return nothing_to_record(options, runtime, outcome, workload);
  http::ProfileRequest request;
  request.type = options.type;
  request.format = options.format;
  request.duration = options.duration.value_or(kUntilTheEnd);
  request.pid = options.pid;
  request.end_with_targets = true;
  request.targets_complete = ends.complete;
  const auto reply = runtime.service().profile(request, ends.stop);
  if (!reply) {
    log(LogLevel::error,
        reply.error().message + (reply.error().hint.empty() ? "" : ": " + reply.error().hint));
    return http::exit_code(reply.error().code);
  }
  if (!reply->empty_because.empty()) log(LogLevel::warning, "the profile is empty: " + reply->empty_because);
  if (auto written = output.write(reply->body); !written) return fail_with(written.error());
  return kDone;
}

// The workload is not ours to end: stay until it has, or pass the user's signal on and give it a moment.
void see_workload_out(const Workload& workload, const StopSignals& signals) {
  if (!signals.token().stop_requested() && !workload.end()) {
    log(LogLevel::info, "waiting for the workload to end; a signal is passed on to it");
  }
  if (!workload.wait(signals.token()) && !workload.end()) {
    if (!signals.first_from_terminal()) workload.send(signals.first());
    (void)workload.wait_for(kSignalledTime);
  }
  const auto end = workload.end();
  log(LogLevel::info, end ? "the workload " + end->text()
                          : "the workload still runs, as process " + std::to_string(workload.pid()));
}

// As a shell would say it. A workload that followed the user's signal has done what it was told.
int code_of_workload(const Workload& workload, const StopSignals& signals) {
  const auto end = workload.end();
  if (!end) return kDone;
  if (!end->by_signal) return end->number;
  const bool told = signals.token().stop_requested() && signals.first() == end->number;
  return told ? kDone : kShellSignalBase + end->number;
}

// Nobody waits for anything any more.
[[noreturn]] void end_at_once(const std::string& unfinished) {
  if (!unfinished.empty()) (void)::unlink(unfinished.c_str());
  log(LogLevel::error, "a second signal: ended at once, without a profile");
  std::_Exit(kInternal);
}

int record_running(const Options& options, const RuntimeFactory& make_runtime, ProfileOutput& output) {
  const StopSignals signals([unfinished = output.temporary()](int, bool) { end_at_once(unfinished); });
  const auto runtime = make_runtime(options);
  if (auto started = runtime->start(); !started) return fail_with(started.error());
  const int code = take_profile(options, *runtime, output, nullptr, {signals.token(), {}, signals.token()});
  runtime->stop();
  return code;
}

// Without the lock the command runs all the same; only its first launches may be missed.
std::optional<RecorderLock> lock_recorder(const std::string& folder) {
  auto lock = RecorderLock::create(folder);
  if (lock) return std::move(*lock);
  log(LogLevel::warning, lock.error().message() + ": launches that come before the shim is armed are missed");
  return std::nullopt;
}

int record_command(Options options, const RuntimeFactory& make_runtime, const std::filesystem::path& from,
                   ProfileOutput& output) {
  const auto shim = options.shim.empty() ? find_shim(from) : Result<std::filesystem::path>(options.shim);
  if (!shim) return fail_with(shim.error());
  // A folder of its own keeps other workloads out of the profile, and needs no /run/pillion.
  std::optional<PrivateFolder> sockets;
  if (!options.socket_dir_given) {
    auto made = PrivateFolder::create();
    if (!made) return fail_with(made.error());
    options.socket_dir = made->path();
    sockets.emplace(std::move(*made));
  }

  std::stop_source ended;
  std::stop_source either;
  std::atomic<const Workload*> running{nullptr};
  const StopSignals signals([&running, unfinished = output.temporary()](int signal, bool from_terminal) {
    const auto* workload = running.load();
    if (workload == nullptr) end_at_once(unfinished);
    if (!from_terminal) workload->send(signal);
  });
  const std::stop_callback on_signal(signals.token(), [&either] { either.request_stop(); });
  const auto runtime = make_runtime(options);
  if (auto started = runtime->start(); !started) return fail_with(started.error());
  auto lock = lock_recorder(options.socket_dir);
  const auto workload = Workload::start(options.command,
                                        {{"CUDA_INJECTION64_PATH", shim->string()},
                                         {"PILLION_SOCKET_DIR", options.socket_dir},
                                         {"PILLION_RECORDER", lock ? lock->path().string() : ""}},
                                        signals.previous_mask(), [&ended, &either] {
                                          ended.request_stop();
                                          either.request_stop();
                                        });
  if (!workload) return fail_with(workload.error(), kUsage);
  running.store(workload->get());
  const int code = take_profile(options, *runtime, output, workload->get(),
                                {signals.token(), ended.get_token(), either.get_token()});
  lock.reset();  // from here on nobody answers a shim that comes
  runtime->stop();
  see_workload_out(**workload, signals);
  running.store(nullptr);
  return code == kDone ? code_of_workload(**workload, signals) : code;
}

}  // namespace

int record(const Options& options, const RuntimeFactory& make_runtime, const std::filesystem::path& from) {
  auto output = ProfileOutput::open(options.output);
  if (!output) return fail_with(output.error());
  if (options.mode == Mode::record_command) return record_command(options, make_runtime, from, *output);
  return record_running(options, make_runtime, *output);
}

}  // namespace pillion::commands
