// SPDX-License-Identifier: Apache-2.0
#pragma once

// What kills a program at cuptiFinalize, as measured on CUPTI 13.0 with driver 580 (H200). The double kills
// it too, by abort() with the reason on stderr, so that a test shows that a profiler avoids these. A graph
// counts as being replayed when it was launched in the last SIMGPU_GRAPH_ACTIVE_MS (1,000). Where the
// measurements leave a gap, the stricter rule holds: with one replaying thread, finalize is good at that
// thread's API exit alone.
namespace simgpu {

void note_graph_launch();      // on the launching thread
void note_kernels_disabled();  // CONCURRENT_KERNEL was switched off while a session goes on
void note_kernels_enabled();
void forget_graphs();  // a new session begins after finalize

// Null when the program survives a finalize here and now on this thread, else why not.
const char* why_finalize_kills();

}  // namespace simgpu
