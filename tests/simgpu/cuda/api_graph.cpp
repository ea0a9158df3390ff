// SPDX-License-Identifier: Apache-2.0
#include <atomic>

#include "cuda/call.h"
#include "cuda/stream.h"
#include "cuda_driver.h"

namespace {

using simgpu::traced;

std::atomic<int> g_execs_ever{0};

// The copy that is launched has a graph id and node ids of its own; CUPTI learns which node came from which.
CUgraphExec instantiate(const simgpu_call& call, CUgraph graph) {
  auto* exec = new CUgraphExec_st;
  exec->graph.id = simgpu::next_graph_id();
  for (const auto& original : graph->nodes) {
    auto node = std::make_unique<CUgraphNode_st>(*original);
    node->graph = &exec->graph;
    node->graph_id = exec->graph.id;
    node->work.op.graph = exec->graph.id;
    node->work.op.node = (std::uint64_t{exec->graph.id} << 32) | node->index;
    const simgpu_graph_event event{&exec->graph, graph, node.get(), original.get(), CU_GRAPH_NODE_TYPE_KERNEL,
                                   nullptr,      exec};
    exec->graph.nodes.push_back(std::move(node));
    simgpu::tell_resource(simgpu::kGraphNodeCreated, call.context, nullptr, &event);
    simgpu::tell_resource(simgpu::kGraphNodeCloned, call.context, nullptr, &event);
  }
  const simgpu_graph_event created{graph, nullptr, nullptr, nullptr, 0, nullptr, exec};
  simgpu::tell_resource(simgpu::kGraphExecCreated, call.context, nullptr, &created);
  g_execs_ever.fetch_add(1, std::memory_order_relaxed);
  return exec;
}

struct LaunchParameters {
  CUgraphExec exec;
  CUstream stream;
};

template <std::uint32_t Cbid>
CUresult launch(const char* name, CUgraphExec exec, CUstream stream) {
  return traced({Cbid, name}, LaunchParameters{exec, stream}, [&](simgpu_call& call) -> CUresult {
    if (exec == nullptr) return CUDA_ERROR_INVALID_VALUE;
    simgpu::put_graph(simgpu::resolve(stream), call, exec->graph);
    return CUDA_SUCCESS;
  });
}

struct GraphParameters {
  CUgraph graph;
};
struct ExecParameters {
  CUgraphExec exec;
};

}  // namespace

extern "C" {

CUresult cuStreamBeginCapture_v2(CUstream stream, int mode) {
  const struct {
    CUstream stream;
    int mode;
  } parameters{stream, mode};
  return traced({539, "cuStreamBeginCapture_v2"}, parameters, [&](simgpu_call& call) -> CUresult {
    if (simgpu::resolve(stream) != stream) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    auto* graph = new CUgraph_st{simgpu::next_graph_id(), {}};
    {
      const std::lock_guard lock(stream->mutex);
      stream->capture = graph;
    }
    const simgpu_graph_event event{graph, nullptr, nullptr, nullptr, 0, nullptr, nullptr};
    simgpu::tell_resource(simgpu::kGraphCreated, call.context, stream, &event);
    return CUDA_SUCCESS;
  });
}

CUresult cuStreamEndCapture(CUstream stream, CUgraph* graph) {
  const struct {
    CUstream stream;
    CUgraph* graph;
  } parameters{stream, graph};
  return traced({497, "cuStreamEndCapture"}, parameters, [&](simgpu_call&) -> CUresult {
    const std::lock_guard lock(stream->mutex);
    if (stream->capture == nullptr) return CUDA_ERROR_STREAM_CAPTURE_UNMATCHED;
    *graph = stream->capture;
    stream->capture = nullptr;
    return CUDA_SUCCESS;
  });
}

CUresult cuStreamIsCapturing(CUstream stream, int* status) {
  const struct {
    CUstream stream;
    int* status;
  } parameters{stream, status};
  return traced({499, "cuStreamIsCapturing"}, parameters, [&](simgpu_call&) -> CUresult {
    CUstream resolved = simgpu::resolve(stream);
    const std::lock_guard lock(resolved->mutex);
    *status = resolved->capture != nullptr ? CU_STREAM_CAPTURE_STATUS_ACTIVE : CU_STREAM_CAPTURE_STATUS_NONE;
    return CUDA_SUCCESS;
  });
}

CUresult cuGraphInstantiateWithFlags(CUgraphExec* exec, CUgraph graph, unsigned long long flags) {
  const struct {
    CUgraphExec* exec;
    CUgraph graph;
    unsigned long long flags;
  } parameters{exec, graph, flags};
  return traced({643, "cuGraphInstantiateWithFlags"}, parameters, [&](simgpu_call& call) -> CUresult {
    if (exec == nullptr || graph == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *exec = instantiate(call, graph);
    return CUDA_SUCCESS;
  });
}

CUresult cuGraphLaunch(CUgraphExec exec, CUstream stream) {
  return launch<514>("cuGraphLaunch", exec, stream);
}

CUresult cuGraphLaunch_ptsz(CUgraphExec exec, CUstream stream) {
  return launch<515>("cuGraphLaunch_ptsz", exec, stream);
}

CUresult cuGraphExecDestroy(CUgraphExec exec) {
  return traced({516, "cuGraphExecDestroy"}, ExecParameters{exec}, [&](simgpu_call& call) -> CUresult {
    if (exec == nullptr) return CUDA_ERROR_INVALID_VALUE;
    const simgpu_graph_event event{&exec->graph, nullptr, nullptr, nullptr, 0, nullptr, exec};
    simgpu::tell_resource(simgpu::kGraphExecDestroyStarting, call.context, nullptr, &event);
    delete exec;
    return CUDA_SUCCESS;
  });
}

CUresult cuGraphDestroy(CUgraph graph) {
  return traced({517, "cuGraphDestroy"}, GraphParameters{graph}, [&](simgpu_call& call) -> CUresult {
    if (graph == nullptr) return CUDA_ERROR_INVALID_VALUE;
    const simgpu_graph_event event{graph, nullptr, nullptr, nullptr, 0, nullptr, nullptr};
    simgpu::tell_resource(simgpu::kGraphDestroyStarting, call.context, nullptr, &event);
    delete graph;
    return CUDA_SUCCESS;
  });
}

CUresult cuGraphGetNodes(CUgraph graph, CUgraphNode* nodes, size_t* count) {
  if (graph == nullptr || count == nullptr) return CUDA_ERROR_INVALID_VALUE;
  for (size_t i = 0; nodes != nullptr && i < *count && i < graph->nodes.size(); ++i)
    nodes[i] = graph->nodes[i].get();
  *count = graph->nodes.size();
  return CUDA_SUCCESS;
}

int simgpu_graph_execs_ever(void) { return g_execs_ever.load(std::memory_order_relaxed); }

int simgpu_graph_id(CUgraph graph, uint32_t* id) {
  if (graph == nullptr) return 0;
  *id = graph->id;
  return 1;
}

int simgpu_graph_exec_id(CUgraphExec exec, uint32_t* id) {
  if (exec == nullptr) return 0;
  *id = exec->graph.id;
  return 1;
}

int simgpu_graph_node_id(CUgraphNode node, uint64_t* id) {
  if (node == nullptr) return 0;
  *id = (uint64_t{node->graph_id} << 32) | node->index;
  return 1;
}
}
