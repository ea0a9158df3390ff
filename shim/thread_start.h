// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

namespace pillion::shim {

// Starts a detached thread with every signal blocked from its first instruction on (an inherited mask once
// let such a thread take the SIGTERM that a program waits for by signalfd). libc's own two signals stay open:
// with them blocked a setuid() of the program would wait for our thread for ever. False when none could be
// made.
[[nodiscard]] bool start_thread(void* (*body)(void*), std::size_t stack_bytes);

}  // namespace pillion::shim
