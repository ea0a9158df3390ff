// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "cuda/module.h"
#include "cuda/stream.h"
#include "cuda_driver.h"

// Contexts and who has which current. Contexts and streams are never freed, only marked: the truth and
// CUPTI's ids outlive them.
struct CUctx_st {
  std::uint32_t id;  // CUPTI's context id, from 1
  CUdevice device;
  bool primary;
  bool alive;
  std::uint32_t references;  // of a primary context
  CUstream null_stream;
};

namespace simgpu {

inline constexpr std::uint32_t kNullStreamId = 7;  // as CUPTI numbers the default stream of a context

std::uint32_t device_count();
CUcontext create_context(CUdevice device, bool primary);
void destroy_context(CUcontext context);
CUcontext primary_context(CUdevice device);  // null while it was never retained

// Of the calling thread.
CUcontext current_context();
void set_current(CUcontext context);
void push_current(CUcontext context);
bool pop_current(CUcontext* context);

CUstream create_stream(CUcontext context, int priority);
void destroy_stream(CUstream stream);
// Null, legacy and per-thread handles name the current context's default stream. Null when there is no
// context.
CUstream resolve(CUstream stream);
std::vector<CUstream> streams_of(CUcontext context);  // null: of all contexts, destroyed ones included
std::vector<CUcontext> all_contexts();

}  // namespace simgpu
