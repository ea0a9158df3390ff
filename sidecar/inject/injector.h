// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "inject/examination.h"
#include "inject/injection_step.h"

namespace pillion::inject {

struct CuptiFile {
  std::uint32_t cuda_version = 0;  // 1000 * major + 10 * minor
  std::string path;
};

struct InjectionSettings {
  std::string shim_path;                  // libpillion.so, as this process sees it
  std::vector<CuptiFile> cupti;           // to choose from where the target has not loaded one itself
  std::string socket_directory;           // used if the target sees the same directory there
  std::vector<std::uint32_t> allow_uids;  // who may connect besides the target's uid, 0 and this process's
  std::string log_path;                   // of the shim, in the target's own view; empty: none
  std::chrono::milliseconds thread_patience{5'000};  // to find a thread that may be borrowed
  StepObserver observer;                             // runs in the helper process
};

enum class InjectionStatus : std::uint32_t {
  injected,
  already_there,  // a shim is in the process: nothing was done
  in_progress,    // another injection is under way, or one that broke off has not been forgotten yet (some
                  // seconds)
  target_gone,
  failed  // text says what and why; the target runs on
};
[[nodiscard]] const char* status_name(InjectionStatus status);

struct InjectionOutcome {
  InjectionStatus status = InjectionStatus::failed;
  std::string text;     // for people
  std::string socket;   // where the shim listens, for connect_to(): a path, or '@' and an abstract name
  std::string library;  // how it was loaded: "/proc/self/fd/201", or a path in the target's root
  std::string
      cupti;  // the library that it will use: mapped by the program, or handed over; empty: none known
  std::uint32_t tid = 0;         // the thread that was borrowed
  std::uint64_t stopped_ns = 0;  // for how long
  Step last_step = Step::none;
};

// Loads the shim into a process that runs, by way of a helper process that lives no longer than this call:
// whatever becomes of it, the target goes on. Blocks for some ten milliseconds, 30 s at most. Thread-safe.
[[nodiscard]] InjectionOutcome inject(const Examination& found, const InjectionSettings& settings);

}  // namespace pillion::inject
