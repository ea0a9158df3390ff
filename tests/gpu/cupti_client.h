// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <dlfcn.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <functional>

#include "cupti_types.h"
#include "workload.h"

// A client of CUPTI's that does no more than any must: what the experiments of arming_facts.cpp,
// cupti_facts.cpp and flush_facts.cpp share. No toolkit is needed to build it; it runs on the double, too.
namespace cupti_client {

namespace api = pillion::cupti;
using namespace api;

// libcupti.so.13; ends the program with status 1 when it cannot be loaded.
void load();
void* symbol(const char* name);
template <class Function>
Function function(const char* name) {
  return reinterpret_cast<Function>(symbol(name));
}
#define CUPTI(name) const api::name name = cupti_client::function<api::name>("cupti" #name)

constexpr ActivityKind kKinds[] = {kActivityConcurrentKernel, kActivityMemcpy, kActivityMemset,
                                   kActivityMemcpy2, kActivityOverhead};

extern Subscriber g_subscriber;
// A thread that may finalize does, at its next API exit after g_finalize was set; then g_finalized is.
extern std::atomic<bool> g_finalize, g_finalized;
extern thread_local bool t_may_finalize;

// The call that is under way, for the one who waits for it.
extern std::atomic<const char*> g_step;
extern std::atomic<bool> g_armed;

// Prints how long the call took when that was 8 ms or more.
void timed(const char* name, const std::function<void()>& call);

// Subscribes, registers buffers, enables kKinds and the callbacks of launches; each call timed().
void arm();

CUstream make_stream();
// 20 kernels.
CUgraphExec make_graph(workload::Device& device, CUstream on);

// What the process and the device hold, and what CUPTI has given so far.
void print_held(const char* when);

}  // namespace cupti_client
