// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "cuda_driver.h"
#include "simgpu_interface.h"

// A simulated stream is a timeline: when work is put on it, its start and end are fixed at once, in order
// after what is already there. So nothing has to run while the work "executes", and waiting is sleeping to a
// known instant.
namespace simgpu {

struct Tally {
  std::uint64_t count = 0;
  std::uint64_t ns = 0;
  std::uint64_t bytes = 0;
};

// What really was put on one stream.
struct StreamTruth {
  std::vector<Tally> kernels;  // by CUfunc_st::index
  Tally copies[16];            // by CUpti_ActivityMemcpyKind; peer copies under PTOP
  Tally sets;
  std::uint64_t kernel_launches = 0;  // calls that put one kernel here
  std::uint64_t graph_launches = 0;
  std::uint64_t host_functions = 0;
};

// A piece of work without its times: what a capture keeps and a launch fills in.
struct Work {
  simgpu_op op{};
  std::uint64_t duration_ns = 0;
  CUhostFn host_function = nullptr;
  void* host_data = nullptr;
};

}  // namespace simgpu

struct CUgraphNode_st {
  CUgraph graph;
  std::uint32_t index;
  std::uint32_t graph_id;
  simgpu::Work work;
};

struct CUgraph_st {
  std::uint32_t id;
  std::vector<std::unique_ptr<CUgraphNode_st>> nodes;
};

struct CUgraphExec_st {
  CUgraph_st graph;  // the instantiated copy, with ids of its own
};

struct CUstream_st {
  CUcontext context;
  std::uint32_t id;
  int priority;
  bool destroyed = false;
  std::mutex mutex;  // guards everything below
  std::uint64_t last_end_ns = 0;
  std::uint64_t submitted = 0;
  std::vector<std::uint64_t> ends;  // of the last SIMGPU_QUEUE_DEPTH submissions, a ring
  CUgraph capture = nullptr;        // owned until EndCapture
  simgpu::StreamTruth truth;
};

namespace simgpu {

// Puts one piece of work on the stream: waits (sleeping) while its queue is full, fixes the times, counts it,
// tells the hooks. Returns its end. Under capture it becomes a node instead and 0 is returned.
std::uint64_t put(CUstream stream, const simgpu_call& call, Work work);
// All nodes of a graph, one after the other, as one submission.
std::uint64_t put_graph(CUstream stream, const simgpu_call& call, const CUgraph_st& graph);

bool capturing(CUstream stream);
std::uint64_t stream_end_ns(CUstream stream);
void wait_stream(CUstream stream);  // sleeps until its work is done, host functions included
std::uint32_t next_graph_id();

}  // namespace simgpu
