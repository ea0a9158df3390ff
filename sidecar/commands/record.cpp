// SPDX-License-Identifier: Apache-2.0
#include <atomic>
#include <cstdio>
#include <cstdlib>

#include "commands/commands.h"
#include "commands/output_file.h"
#include "commands/private_folder.h"
#include "commands/program_files.h"
#include "commands/stop_signals.h"
#include "commands/workload.h"

namespace pillion::commands {
namespace {

// "Until the target ends" needs some number; whoever records for longer has another problem.
constexpr std::chrono::hours kUntilTheEnd{24};
constexpr std::chrono::milliseconds kSignalledTime{
    1'500};  // for a workload to follow a signal that we passed on
constexpr mode_t kProfileMode = 0644;

int fail_with(const Error& error, int code = kInternal) {
  log(LogLevel::error, error.message());
  return code;
}

Result<void> write_profile(const std::string& path, std::optional<OutputFile>& file,
                           const std::string& body) {
  if (!file) {
    const bool written =
        std::fwrite(body.data(), 1, body.size(), stdout) == body.size() && std::fflush(stdout) == 0;
    return written ? Result<void>() : fail_errno("write", "stdout");
  }
  if (auto written = file->write(body); !written) return written;
  if (auto committed = file->commit(); !committed) return committed;
  log(LogLevel::info, "wrote " + path + " (" + std::to_string(body.size()) + " bytes)");
  return {};
}

// Waits for a shim, takes the profile, writes it. `end`: by signal or because the workload is gone.
int take_profile(const Options& options, Runtime& runtime, std::optional<OutputFile>& file,
                 const Workload* workload, const std::stop_token& end) {
  const auto outcome = runtime.wait_for_shim(end);
  if (outcome == WaitOutcome::deadline) {
    log(LogLevel::error, "no shim came within the time of -wait-for-shim\n" + runtime.what_was_seen());
    return kNoShim;
  }
  if (outcome == WaitOutcome::stopped) {
    const auto ended = workload == nullptr ? std::nullopt : workload->end();
    log(LogLevel::error, ended ? "the workload " + ended->text() + " before its shim came" +
                                     (ended->failed() ? "" : ": did it use CUDA?")
                               : "ended before a shim came: nothing to write");
    return ended ? kTargetGone : kNoShim;
  }
  http::ProfileRequest request;
  request.type = options.type;
  request.format = options.format;
  request.duration = options.duration.value_or(kUntilTheEnd);
  request.pid = options.pid;
  request.end_with_targets = true;
  const auto reply = runtime.service().profile(request, end);
  if (!reply) {
    log(LogLevel::error,
        reply.error().message + (reply.error().hint.empty() ? "" : ": " + reply.error().hint));
    return http::exit_code(reply.error().code);
  }
  if (auto written = write_profile(options.output, file, reply->body); !written)
    return fail_with(written.error());
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

int record_running(const Options& options, const RuntimeFactory& make_runtime,
                   std::optional<OutputFile>& file) {
  const StopSignals signals([](int, bool) { std::_Exit(kInternal); });
  const auto runtime = make_runtime(options);
  if (auto started = runtime->start(); !started) return fail_with(started.error());
  const int code = take_profile(options, *runtime, file, nullptr, signals.token());
  runtime->stop();
  return code;
}

int record_command(Options options, const RuntimeFactory& make_runtime, const std::filesystem::path& from,
                   std::optional<OutputFile>& file) {
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

  std::stop_source end;
  std::atomic<const Workload*> running{nullptr};
  const StopSignals signals([&running](int signal, bool from_terminal) {
    const auto* workload = running.load();
    if (workload == nullptr) std::_Exit(kInternal);
    if (!from_terminal) workload->send(signal);
  });
  const std::stop_callback end_on_signal(signals.token(), [&end] { end.request_stop(); });
  const auto runtime = make_runtime(options);
  if (auto started = runtime->start(); !started) return fail_with(started.error());
  const auto workload =
      Workload::start(options.command,
                      {{"CUDA_INJECTION64_PATH", shim->string()}, {"PILLION_SOCKET_DIR", options.socket_dir}},
                      signals.previous_mask(), [&end] { end.request_stop(); });
  if (!workload) return fail_with(workload.error(), kUsage);
  running.store(workload->get());
  const int code = take_profile(options, *runtime, file, workload->get(), end.get_token());
  runtime->stop();
  see_workload_out(**workload, signals);
  running.store(nullptr);
  return code;
}

}  // namespace

int record(const Options& options, const RuntimeFactory& make_runtime, const std::filesystem::path& from) {
  std::optional<OutputFile> file;  // before the window: a file that cannot be written must not cost a profile
  if (options.output != "-") {
    auto created = OutputFile::create(options.output, kProfileMode);
    if (!created) return fail_with(created.error());
    file.emplace(std::move(*created));
  }
  if (options.mode == Mode::record_command) return record_command(options, make_runtime, from, file);
  return record_running(options, make_runtime, file);
}

}  // namespace pillion::commands
