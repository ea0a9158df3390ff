// SPDX-License-Identifier: Apache-2.0
#include <cstdlib>

#include "commands/commands.h"
#include "commands/stop_signals.h"
#include "http/server.h"
#include "web/files.h"

namespace pillion::commands {
namespace {

int wait_until_done(const Options& options, Runtime& runtime, const std::stop_token& stop) {
  switch (runtime.wait_for_shim(stop)) {
    case WaitOutcome::stopped:
      return kDone;
    case WaitOutcome::deadline:
      log(LogLevel::error, "no shim came within the time of -wait-for-shim\n" + runtime.what_was_seen());
      return kNoShim;
    case WaitOutcome::refused:
      log(LogLevel::error, runtime.who_refused());
      return kRefused;
    case WaitOutcome::gone:  // with -exit-with-workload
      log(LogLevel::info, "the workload has ended, and no shim came");
      return kDone;
    case WaitOutcome::failed:  // only record asks
    case WaitOutcome::attached:
      break;
  }
  if (!options.exit_with_workload) {
    wait_for_stop(stop);
  } else if (runtime.wait_for_workload_end(stop)) {
    log(LogLevel::info, "the workload has ended");
  }
  return kDone;
}

}  // namespace

int serve(const Options& options, const RuntimeFactory& make_runtime) {
  std::optional<http::TokenFile> token;
  if (!options.token_file.empty()) {
    auto opened = http::TokenFile::open(options.token_file);
    if (!opened) {
      log(LogLevel::error, "flag -token-file: " + opened.error().message());
      return kUsage;
    }
    token = std::move(*opened);
  }
  // Somebody who signals twice does not want to wait for the clean end.
  const StopSignals signals([](int, bool) { std::_Exit(kInternal); });
  const auto runtime = make_runtime(options);
  if (auto started = runtime->start(); !started) {
    log(LogLevel::error, started.error().message());
    return kInternal;
  }
  http::ServerConfig config;
  config.listen = options.listen;
  config.allow_hosts = options.allow_hosts;
  config.unix_mode = options.listen_mode;
  config.token = std::move(token);
  config.health_listen = options.health_listen;
  config.page = web::files();
  const auto server = http::Server::create(config, runtime->service());
  if (!server) {
    log(LogLevel::error, server.error().message());
    runtime->stop();
    return kInternal;
  }
  const int code = wait_until_done(options, *runtime, signals.token());
  (*server)->stop();  // before the runtime: open windows still need it for their answer
  runtime->stop();
  return code;
}

}  // namespace pillion::commands
