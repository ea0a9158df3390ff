// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>

namespace pillion::inject {

// Where an injection stands. After each of these the injector may die and the target lives on.
enum class Step : std::uint32_t {
  none,
  seized,          // a thread is traced and runs
  stopped,         // it is stopped, nothing of it is changed
  way_back_laid,   // its stack below the red zone is written
  first_call_set,  // its registers are ours
  signals_blocked,
  file_made,  // the loader's file is open in the target
  code_mapped,
  creation_set,      // its registers lead to pthread_create
  creation_entered,  // it is inside pthread_create
  loader_created,
  state_restored,  // all is as it was, still stopped
  detached,        // from here on the loader works
  claimed,         // no other injector may go on with this process
  library_made,    // an empty file is open in the target
  library_filled,
  library_loaded,
  cupti_made,
  shim_started,
  loader_dismissed,
  count
};
[[nodiscard]] const char* step_name(Step step);

// Called on the injector's thread after each step.
using StepObserver = std::function<void(Step)>;

}  // namespace pillion::inject
