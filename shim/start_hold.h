// SPDX-License-Identifier: Apache-2.0
#pragma once

// A program that `pillion record -- command` started waits inside cuInit, in InitializeInjection, until its
// shim is armed and the window is open: so that not one launch comes before. Nothing waits unless the
// environment names a recorder, and that recorder lives and holds its file's lock; the wait ends with START,
// with the recorder's connection, with the recorder, and after ten seconds in any case.
namespace pillion::shim {

// `recorder` is PILLION_RECORDER: a file that `pillion record` keeps locked (flock) as long as it looks after
// shims that come. Decides whether there is somebody to wait for. Before the control thread starts.
void hold_program(const char* recorder);

// Control thread: whether cuInit still waits.
[[nodiscard]] bool program_is_held();

// Any thread; more often is harmless. Once released, held no more.
void release_program();

// The calling thread of InitializeInjection. Returns at once when nothing holds it. Makes no CUDA call; a
// signal handler may run meanwhile.
void wait_while_held();

}  // namespace pillion::shim
