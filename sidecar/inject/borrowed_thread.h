// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "base/result.h"
#include "base/unique_fd.h"
#include "inject/examination.h"
#include "inject/injection_step.h"
#include "inject/target_process.h"

namespace pillion::inject {

// What came of borrowing a thread: the loader runs.
struct BorrowedThread {
  std::uint32_t tid = 0;
  UniqueFd file;                 // the loader's memory file, also open in the target
  std::uint64_t stopped_ns = 0;  // how long the thread was kept from its work
};

// Stops one sleeping thread of the target, makes it create the loader, and lets it go as it was. Tries for
// `patience_ns` to find a thread that may be borrowed.
[[nodiscard]] Result<BorrowedThread> borrow_thread(const TargetProcess& target, const Examination& found,
                                                   std::uint64_t patience_ns, const StepObserver& observer);

}  // namespace pillion::inject
