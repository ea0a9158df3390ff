// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <stop_token>
#include <string>

#include "base/result.h"
#include "http/profile_service.h"
#include "options.h"

// What a command needs of the pipeline. pipeline.cpp implements it; tests have a fake.
namespace pillion {

enum class WaitOutcome : std::uint8_t {
  attached,  // a shim is connected
  deadline,  // Options::wait_for_shim is over
  refused,   // it is over, and shims are there that do not take us; or at once, because the process of
             // Options::pid has no shim and cannot be injected into: who_refused() says which
  failed,    // Options::inject was tried on that process, and failed: who_refused() says why
  gone,      // record: the process of Options::pid is not there; with Options::exit_with_workload: there were
             // other processes, and all have ended without a shim
  stopped    // the stop token asked for it
};

class Runtime {
 public:
  // Ends everything as stop() does.
  virtual ~Runtime() = default;

  // Opens what can fail (the socket directory's watch) and starts the threads. Called once, before anything
  // else.
  [[nodiscard]] virtual Result<void> start() = 0;

  // Valid as long as the runtime, from start() on, also while nothing is attached.
  [[nodiscard]] virtual http::ProfileService& service() = 0;

  // Blocks until a shim is attached (that of Options::pid, if set), the deadline of Options::wait_for_shim
  // passes (0: none), or `stop`. Returns at once if one is attached. Callable again.
  [[nodiscard]] virtual WaitOutcome wait_for_shim(std::stop_token stop) = 0;

  // For people, several lines: which processes were seen, which have libcuda mapped without the shim (or that
  // it may not look, and what it needs), what to do.
  [[nodiscard]] virtual std::string what_was_seen() = 0;

  // For people, a line for each shim that does not take us: whose it is, and why (another sidecar's pid, its
  // user); or why the shim does not come into the process of Options::pid. Empty when there is none.
  [[nodiscard]] virtual std::string who_refused() = 0;

  // Blocks until at least one process has been attached and every one that was has ended (true), or until
  // `stop` (false).
  [[nodiscard]] virtual bool wait_for_workload_end(std::stop_token stop) = 0;

  // Disarms and detaches every session and ends the threads; open windows end. Takes less than a second,
  // unless Options::finalize needs the workload to come by. Idempotent.
  virtual void stop() = 0;
};

// Does not start anything. Defined by pipeline.cpp.
[[nodiscard]] std::unique_ptr<Runtime> make_runtime(const Options& options);

}  // namespace pillion
