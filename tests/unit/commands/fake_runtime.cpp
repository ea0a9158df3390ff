// SPDX-License-Identifier: Apache-2.0
#include "commands/fake_runtime.h"

namespace pillion {

FakeRuntime::~FakeRuntime() { stop(); }

Result<void> FakeRuntime::start() {
  if (script_.start_fails) return fail("watch", script_.options.socket_dir, "made to fail");
  return {};
}

WaitOutcome FakeRuntime::wait_for_shim(std::stop_token stop) {
  if (script_.shim_comes) return WaitOutcome::attached;
  if (script_.target_gone) return WaitOutcome::gone;
  if (script_.injection_fails) return WaitOutcome::failed;
  std::mutex mutex;
  std::condition_variable_any changed;
  std::unique_lock lock(mutex);
  const auto never = [] { return false; };
  if (script_.options.wait_for_shim.count() == 0) {
    changed.wait(lock, stop, never);
  } else {
    changed.wait_for(lock, stop, script_.options.wait_for_shim, never);
  }
  if (stop.stop_requested()) return WaitOutcome::stopped;
  return script_.refuses.empty() ? WaitOutcome::deadline : WaitOutcome::refused;
}

bool FakeRuntime::wait_for_workload_end(std::stop_token stop) {
  std::mutex mutex;
  std::condition_variable_any changed;
  bool ended = false;
  const std::stop_callback on_end(script_.workload_end.get_token(), [&] {
    const std::lock_guard lock(mutex);
    ended = true;
    changed.notify_all();
  });
  std::unique_lock lock(mutex);
  return changed.wait(lock, stop, [&] { return ended; });
}

void FakeRuntime::stop() {
  if (stopped_) return;
  stopped_ = true;
  ++script_.stops;
}

}  // namespace pillion
