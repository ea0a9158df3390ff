// SPDX-License-Identifier: Apache-2.0
#pragma once

// What kills a program at cuptiFinalize, as measured on CUPTI 13.0 with driver 580 (H200). The double kills
// it too, by abort() with the reason on stderr, so that a test shows that a profiler avoids these. A graph
// counts as being replayed when it was launched in the last SIMGPU_GRAPH_ACTIVE_MS (1,000). Where the
// measurements leave a gap, the stricter rule holds: with one replaying thread, finalize is good at that
// thread's API exit alone.
namespace simgpu {

// On the launching thread. `recorded`: while CONCURRENT_KERNEL is enabled. A graph that was replayed
// recorded, then unrecorded, and not recorded since, is deadly at a finalize; no other order of the two is.
void note_graph_launch(const void* exec, bool recorded);
void forget_graph(const void* exec);  // it is being destroyed
void forget_graphs();                 // a new session begins after finalize

// Around a client's callback at ENTER: a thread that is held there while another finalizes dies.
class AtEnter {
 public:
  AtEnter();
  ~AtEnter();
  AtEnter(const AtEnter&) = delete;
  AtEnter& operator=(const AtEnter&) = delete;
};

// Null when the program survives a finalize here and now on this thread, else why not.
const char* why_finalize_kills();

}  // namespace simgpu
