// SPDX-License-Identifier: Apache-2.0
#include "cuda/context.h"

#include <mutex>

#include "common/knobs.h"
#include "cuda/call.h"
#include "cuda/device_nodes.h"
#include "simgpu_interface.h"

namespace simgpu {
namespace {

// Guards the two lists; held for moments only, never while anything is called back.
std::mutex g_mutex;
auto& g_contexts = *new std::vector<CUcontext>;  // leaked: used until the very end of the process
auto& g_streams = *new std::vector<CUstream>;
std::uint32_t g_next_stream = 13;

// A program that nests deeper than this gets CUDA_ERROR_INVALID_VALUE from a push.
constexpr int kStackDepth = 16;
thread_local CUcontext t_stack[kStackDepth];
thread_local int t_depth = 0;

CUstream new_stream(CUcontext context, std::uint32_t id, int priority) {
  auto stream = std::make_unique<CUstream_st>();
  stream->context = context;
  stream->id = id;
  stream->priority = priority;
  g_streams.push_back(stream.get());
  return stream.release();
}

}  // namespace

std::uint32_t device_count() {
  static const auto count = static_cast<std::uint32_t>(knob("SIMGPU_DEVICES", 1));
  return count;
}

CUcontext create_context(CUdevice device, bool primary) {
  CUcontext context = nullptr;
  {
    const std::lock_guard lock(g_mutex);
    context =
        new CUctx_st{static_cast<std::uint32_t>(g_contexts.size() + 1), device, primary, true, 1, nullptr};
    context->null_stream = new_stream(context, kNullStreamId, 0);
    g_contexts.push_back(context);
  }
  context_made();
  tell_resource(kContextCreated, context, nullptr, nullptr);
  return context;
}

void destroy_context(CUcontext context) {
  tell_resource(kContextDestroyStarting, context, nullptr, nullptr);
  for (CUstream stream : streams_of(context)) wait_stream(stream);
  const std::lock_guard lock(g_mutex);
  if (!context->alive) return;
  context->alive = false;
  context_gone();
}

CUcontext primary_context(CUdevice device) {
  const std::lock_guard lock(g_mutex);
  for (CUcontext context : g_contexts) {
    if (context->primary && context->device == device && context->alive) return context;
  }
  return nullptr;
}

CUcontext current_context() { return t_depth > 0 ? t_stack[t_depth - 1] : nullptr; }

void set_current(CUcontext context) {
  if (t_depth > 0) --t_depth;
  if (context != nullptr) t_stack[t_depth++] = context;
}

void push_current(CUcontext context) {
  if (t_depth < kStackDepth) t_stack[t_depth++] = context;
}

bool pop_current(CUcontext* context) {
  if (t_depth == 0) return false;
  *context = t_stack[--t_depth];
  return true;
}

CUstream create_stream(CUcontext context, int priority) {
  CUstream stream = nullptr;
  {
    const std::lock_guard lock(g_mutex);
    stream = new_stream(context, g_next_stream++, priority);
  }
  tell_resource(kStreamCreated, context, stream, nullptr);
  return stream;
}

void destroy_stream(CUstream stream) {
  tell_resource(kStreamDestroyStarting, stream->context, stream, nullptr);
  const std::lock_guard lock(g_mutex);
  stream->destroyed = true;
}

CUstream resolve(CUstream stream) {
  if (stream != nullptr && stream != CU_STREAM_LEGACY && stream != CU_STREAM_PER_THREAD) return stream;
  CUcontext context = current_context();
  return context != nullptr ? context->null_stream : nullptr;
}

std::vector<CUstream> streams_of(CUcontext context) {
  const std::lock_guard lock(g_mutex);
  std::vector<CUstream> streams;
  for (CUstream stream : g_streams) {
    if (context == nullptr || stream->context == context) streams.push_back(stream);
  }
  return streams;
}

std::vector<CUcontext> all_contexts() {
  const std::lock_guard lock(g_mutex);
  return g_contexts;
}

}  // namespace simgpu

extern "C" {

std::uint32_t simgpu_device_count(void) { return simgpu::device_count(); }

int simgpu_context_info(CUcontext context, std::uint32_t* id, std::uint32_t* device,
                        std::uint32_t* null_stream) {
  for (CUcontext known : simgpu::all_contexts()) {
    if (known != context) continue;
    if (id != nullptr) *id = context->id;
    if (device != nullptr) *device = static_cast<std::uint32_t>(context->device);
    if (null_stream != nullptr) *null_stream = context->null_stream->id;
    return 1;
  }
  return 0;
}

int simgpu_stream_id(CUcontext context, CUstream stream, std::uint32_t* id) {
  const bool is_default = stream == nullptr || stream == CU_STREAM_LEGACY || stream == CU_STREAM_PER_THREAD;
  for (CUstream known : simgpu::streams_of(context)) {
    if (known == stream || (is_default && known == known->context->null_stream)) {
      *id = known->id;
      return 1;
    }
  }
  return 0;
}

void simgpu_each_context(void (*visit)(void*, CUcontext, std::uint32_t, std::uint32_t), void* user) {
  for (CUcontext context : simgpu::all_contexts()) {
    if (context->alive) visit(user, context, context->id, static_cast<std::uint32_t>(context->device));
  }
}

void simgpu_each_stream(void (*visit)(void*, std::uint32_t, std::uint32_t, int), void* user) {
  for (CUstream stream : simgpu::streams_of(nullptr)) {
    if (!stream->destroyed) visit(user, stream->context->id, stream->id, stream->priority);
  }
}
}
