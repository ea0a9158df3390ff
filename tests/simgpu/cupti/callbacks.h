// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "cupti_types.h"
#include "simgpu_interface.h"

// The one subscriber, its table of enabled callbacks, and the dispatch on the caller's thread.
namespace simgpu {

struct Subscriber {
  pillion::cupti::CallbackFunc callback;
  void* userdata;
  char name[64];
};

// Null: somebody else holds it; `holder` then points at his name.
Subscriber* take_subscriber(pillion::cupti::CallbackFunc callback, void* userdata, const char* name,
                            const char** holder);
bool drop_subscriber(Subscriber* subscriber);
void forget_subscriber();  // whoever it is
bool is_subscriber(const void* handle);

bool enable_callback(std::uint32_t domain, std::uint32_t cbid, bool enable);
bool enable_domain(std::uint32_t domain, bool enable);
bool callback_enabled(std::uint32_t domain, std::uint32_t cbid);
void reset_callbacks();

void dispatch_enter(simgpu_call* call);
void dispatch_exit(simgpu_call* call);
// MODULE_PROFILED for the module of a kernel launch.
void dispatch_module_profiled(const simgpu_call& call);
void dispatch_resource(std::uint32_t cbid, CUcontext context, CUstream stream, const void* descriptor);
void dispatch_state(std::uint32_t cbid, pillion::cupti::Result result, const char* message);

// Whether the calling thread is inside an EXIT callback of a driver call.
bool inside_exit_callback();

}  // namespace simgpu
