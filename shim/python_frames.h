// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "abi/pillion_abi.h"
#include "capture_session.h"
#include "python_stack.h"

// Python frames of launching threads: the whole of it, as the rest of the capture side sees it.
namespace pillion::shim {

// --- Capture thread ---

// At arming, before launches are recorded: looks for an interpreter.
void python_begin(bool wanted);

// When libraries came or went, in a session: looks again where none was found yet.
void python_look_again();

// Any thread.
[[nodiscard]] bool python_in_force();

// Each tick: sends code objects that found no room.
void python_retry(CaptureSession& session, std::uint32_t tid);

// After the session was taken from the callbacks: waits, up to two seconds, for threads that are walking, and
// forgets.
void python_end();

// --- Launching thread; no lock, no allocation ---

// A word that differs between two lines of Python code, for the context key: the innermost instruction. 0
// without Python. Makes a system call only at the first touch of a page of the interpreter's memory.
[[nodiscard]] std::uint64_t python_place();

// The frames of the calling thread. No frames and no flags where there is no Python. Code objects that are
// met for the first time are copied and sent.
void walk_python(CaptureSession& session, std::uint32_t number, std::uint32_t tid, PythonStack* out);

// --- Control thread ---

// What was found last, with how often that has changed: 0 while nobody has looked. `out->header` and
// `out->generation` are left alone.
[[nodiscard]] std::uint32_t python_state(pillion_python* out);

}  // namespace pillion::shim
