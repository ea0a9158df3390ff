// SPDX-License-Identifier: Apache-2.0
#include "cuda/stream.h"

#include <algorithm>
#include <atomic>

#include "common/knobs.h"
#include "cuda/call.h"
#include "cuda/clock.h"
#include "cuda/context.h"
#include "cuda/host_functions.h"

namespace simgpu {
namespace {

const std::uint64_t g_latency_ns = knob("SIMGPU_LAUNCH_LATENCY_NS", 1500);
const std::uint64_t g_depth = std::max<std::uint64_t>(knob("SIMGPU_QUEUE_DEPTH", 1024), 4);
const std::uint64_t g_spread_ns = knob("SIMGPU_KERNEL_SPREAD_NS", 0);
std::atomic<std::uint32_t> g_next_graph{1};

// Durations that differ from launch to launch, so that a sum which is right by chance is unlikely.
std::uint64_t duration(const Work& work, std::uint64_t seed) {
  if (g_spread_ns == 0 || work.op.kind != SIMGPU_KERNEL) return work.duration_ns;
  const std::uint64_t mixed = (seed + 1) * 0x9e3779b97f4a7c15u;
  return work.duration_ns + (mixed >> 32) % g_spread_ns;
}

void count(StreamTruth& truth, const simgpu_op& op) {
  Tally* tally = nullptr;
  switch (op.kind) {
    case SIMGPU_KERNEL:
      if (truth.kernels.size() <= op.function_index) truth.kernels.resize(op.function_index + 1);
      tally = &truth.kernels[op.function_index];
      break;
    case SIMGPU_COPY:
    case SIMGPU_PEER_COPY:
      tally = &truth.copies[op.copy_kind & 15];
      break;
    case SIMGPU_SET:
      tally = &truth.sets;
      break;
    default:
      truth.host_functions += op.kind == SIMGPU_HOST ? 1 : 0;
      return;
  }
  tally->count += 1;
  tally->ns += op.end_ns - op.start_ns;
  tally->bytes += op.bytes;
}

// A full queue holds the caller up, as the driver's does; a quarter of it is let drain at once, so that the
// caller sleeps seldom.
void wait_for_room(CUstream stream, std::unique_lock<std::mutex>& lock) {
  if (stream->ends.empty()) stream->ends.resize(g_depth);
  while (stream->ends[stream->submitted % g_depth] > now_ns()) {
    const std::uint64_t until = stream->ends[(stream->submitted + g_depth / 4) % g_depth];
    lock.unlock();
    sleep_until(until);
    lock.lock();
  }
}

// Under the stream's lock: the start of what comes next.
std::uint64_t next_start(CUstream stream, std::uint64_t now) {
  return std::max(now + g_latency_ns, stream->last_end_ns);
}

void submitted(CUstream stream, std::uint64_t end) {
  stream->last_end_ns = end;
  stream->ends[stream->submitted % g_depth] = end;
  stream->submitted += 1;
}

void identify(CUstream stream, simgpu_op& op) {
  op.device = static_cast<std::uint32_t>(stream->context->device);
  op.context = stream->context->id;
  op.stream = stream->id;
}

// A launch on a capturing stream becomes a node; CUPTI hears of the node inside the capturing call, with no
// lock held.
void capture(CUstream stream, Work work, std::unique_lock<std::mutex>& lock) {
  CUgraph graph = stream->capture;
  const auto index = static_cast<std::uint32_t>(graph->nodes.size());
  CUgraphNode before = graph->nodes.empty() ? nullptr : graph->nodes.back().get();
  identify(stream, work.op);
  work.op.graph = graph->id;
  work.op.node = (std::uint64_t{graph->id} << 32) | index;
  const int type = work.op.kind == SIMGPU_KERNEL ? CU_GRAPH_NODE_TYPE_KERNEL
                   : work.op.kind == SIMGPU_SET  ? CU_GRAPH_NODE_TYPE_MEMSET
                   : work.op.kind == SIMGPU_HOST ? CU_GRAPH_NODE_TYPE_HOST
                                                 : CU_GRAPH_NODE_TYPE_MEMCPY;
  graph->nodes.push_back(std::make_unique<CUgraphNode_st>(CUgraphNode_st{graph, index, graph->id, work}));
  const simgpu_graph_event event{graph, nullptr, graph->nodes.back().get(), nullptr, type, before, nullptr};
  lock.unlock();
  static const bool told = knob("SIMGPU_GRAPH_NODE_CREATED", 1) != 0;
  if (told) tell_resource(kGraphNodeCreated, stream->context, stream, &event);
}

}  // namespace

std::uint64_t put(CUstream stream, const simgpu_call& call, Work work) {
  std::unique_lock lock(stream->mutex);
  if (stream->capture != nullptr) {
    capture(stream, work, lock);
    return 0;
  }
  wait_for_room(stream, lock);
  identify(stream, work.op);
  work.op.queued_ns = now_ns();
  work.op.start_ns = next_start(stream, work.op.queued_ns);
  work.op.end_ns = work.op.start_ns + duration(work, stream->submitted);
  if (work.op.kind == SIMGPU_KERNEL) stream->truth.kernel_launches += 1;
  count(stream->truth, work.op);
  submitted(stream, work.op.end_ns);
  lock.unlock();
  if (work.host_function != nullptr) run_at(work.op.end_ns, stream, work.host_function, work.host_data);
  tell_op(call, work.op);
  return work.op.end_ns;
}

std::uint64_t put_graph(CUstream stream, const simgpu_call& call, const CUgraph_st& graph) {
  std::unique_lock lock(stream->mutex);
  wait_for_room(stream, lock);
  const std::uint64_t now = now_ns();
  const std::uint64_t begin = next_start(stream, now);
  const std::uint64_t seed = stream->submitted;
  std::uint64_t at = begin;
  for (const auto& node : graph.nodes) {
    simgpu_op timed = node->work.op;
    timed.start_ns = at;
    timed.end_ns = at += duration(node->work, seed + node->index);
    count(stream->truth, timed);
    if (node->work.host_function != nullptr) {
      run_at(at, stream, node->work.host_function, node->work.host_data);
    }
  }
  stream->truth.graph_launches += 1;
  submitted(stream, at);
  lock.unlock();
  at = begin;
  for (const auto& node : graph.nodes) {
    simgpu_op op = node->work.op;
    identify(stream, op);
    op.queued_ns = now;
    op.start_ns = at;
    op.end_ns = at += duration(node->work, seed + node->index);
    tell_op(call, op);
  }
  return at;
}

bool capturing(CUstream stream) {
  const std::lock_guard lock(stream->mutex);
  return stream->capture != nullptr;
}

std::uint64_t stream_end_ns(CUstream stream) {
  const std::lock_guard lock(stream->mutex);
  return stream->last_end_ns;
}

void wait_stream(CUstream stream) {
  const std::uint64_t end = stream_end_ns(stream);
  if (end > now_ns()) sleep_until(end);
  wait_host_functions(stream);
}

std::uint32_t next_graph_id() { return g_next_graph.fetch_add(1, std::memory_order_relaxed); }

}  // namespace simgpu
