// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>

#include "http/fake_service.h"
#include "runtime.h"

namespace pillion {

// What a test wants the runtime to do, and what it saw. Outlives the runtime.
struct FakeScript {
  bool shim_comes = true;
  bool start_fails = false;
  std::string refuses;           // who_refused(): shims are there that do not take us
  bool injection_fails = false;  // and who_refused() says why
  bool target_gone = false;
  std::stop_source workload_end;  // requested by the test: the workload has ended
  http::FakeService service;

  std::atomic<int> stops{0};
  Options options;  // those that make_runtime was given
};

class FakeRuntime final : public Runtime {
 public:
  FakeRuntime(FakeScript& script, const Options& options) : script_(script) { script_.options = options; }
  ~FakeRuntime() override;

  Result<void> start() override;
  http::ProfileService& service() override { return script_.service; }
  WaitOutcome wait_for_shim(std::stop_token stop) override;
  std::string what_was_seen() override { return "no process has libcuda mapped"; }
  std::string who_refused() override { return script_.refuses; }
  bool wait_for_workload_end(std::stop_token stop) override;
  void stop() override;

 private:
  FakeScript& script_;
  bool stopped_ = false;
};

}  // namespace pillion
