// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "inject/process_folder.h"

namespace pillion::inject {

// /proc/PID/task/TID/syscall, which says what a thread sleeps in, is its user's and root's alone; the wait
// channel, the function of the kernel that it sleeps in, may be read by whoever may trace the thread.

// Whether a sleep in that function ends, when the thread is interrupted, in a call that is begun anew, by the
// kernel itself or by repair_interrupted: the program does not notice. False for a function that is not
// known, and for "0": none.
[[nodiscard]] bool restarts_unnoticed(std::string_view channel);

// Whether threads of the process may be told by their wait channels: one that sleeps has one. A process of
// which no thread sleeps now gets the benefit of the doubt; a kernel without names of its functions has none.
[[nodiscard]] bool has_wait_channels(const ProcessFolder& folder);

}  // namespace pillion::inject
