// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "control_session.h"

namespace pillion::shim {

// Starts the thread that owns socket, peer and state. The socket must be open. False when no thread could be
// made.
[[nodiscard]] bool start_control_thread(const ControlConfig& config);

// From the program's exit, on whatever thread that runs: removes the socket's name, has a session flushed and
// disarmed, and waits for that at most `wait_ms`. Never more than once.
void stop_for_exit(std::uint32_t wait_ms);

// In a forked child, on its only thread: closes our copies, touches nothing of the parent's.
void forget_in_child();

}  // namespace pillion::shim
