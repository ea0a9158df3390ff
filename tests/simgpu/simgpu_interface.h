/* SPDX-License-Identifier: Apache-2.0
 *
 * What the libcuda double exports beside the driver API: hooks for the libcupti double and the truth for
 * tests. All times are CLOCK_MONOTONIC nanoseconds (plus the skew of virtual time).
 */
#ifndef SIMGPU_INTERFACE_H
#define SIMGPU_INTERFACE_H

#include <stddef.h>
#include <stdint.h>

#include "cuda_driver.h"

#ifdef __cplusplus
extern "C" {
#endif

/* One driver call, from its ENTER to its EXIT on the caller's stack. */
typedef struct simgpu_call {
  uint32_t cbid; /* CUpti_driver_api_trace_cbid */
  const char* name;
  const void* parameters; /* the call's arguments in order, as in cu..._params of generated_cuda_meta.h */
  const char* symbol;     /* kernel launches: the kernel's name */
  CUcontext context;
  uint32_t context_id;
  CUresult result;
  CUmodule module; /* kernel launches */
  /* The hooks' own. */
  uint32_t correlation;
  uint64_t correlation_data;
  uint64_t enter_ns;
  int entered; /* ENTER was dispatched */
} simgpu_call;

typedef enum simgpu_op_kind {
  SIMGPU_KERNEL = 0,
  SIMGPU_COPY = 1,
  SIMGPU_SET = 2,
  SIMGPU_PEER_COPY = 3,
  SIMGPU_HOST = 4,
  SIMGPU_SYNC = 5
} simgpu_op_kind;

/* One piece of work put on a stream. Its times are fixed when it is put there. */
typedef struct simgpu_op {
  uint32_t kind; /* simgpu_op_kind */
  uint32_t device, context, stream;
  uint64_t queued_ns, start_ns, end_ns;
  const char* name; /* kernels; lives for ever */
  uint32_t function_index;
  uint32_t grid[3], block[3], static_shared, dynamic_shared, registers;
  uint32_t launch_type; /* CUpti_ActivityLaunchType */
  uint64_t bytes;
  uint32_t copy_kind, source_kind, destination_kind; /* CUpti_ActivityMemcpyKind, ...MemoryKind */
  uint32_t value;                                    /* sets */
  uint32_t source_device, source_context, destination_device, destination_context;
  uint32_t graph;     /* exec graph's id, 0: not from a graph */
  uint64_t node;      /* (graph << 32) | index */
  uint32_t sync_type; /* CUpti_ActivitySynchronizationType */
} simgpu_op;

typedef struct simgpu_module_bytes {
  uint32_t id;
  const void* bytes;
  size_t size;
} simgpu_module_bytes;

typedef struct simgpu_graph_event {
  CUgraph graph, original_graph;
  CUgraphNode node, original_node;
  int node_type;
  CUgraphNode dependency;
  CUgraphExec exec;
} simgpu_graph_event;

/* Called on the thread that made the driver call. descriptor: simgpu_module_bytes* for the module cbids,
 * simgpu_graph_event* for the graph cbids, else null. */
typedef struct simgpu_hooks {
  void (*enter)(simgpu_call* call);
  void (*exit)(simgpu_call* call);
  void (*op)(const simgpu_call* call, const simgpu_op* op);
  void (*resource)(uint32_t cbid, CUcontext context, CUstream stream, const void* descriptor);
} simgpu_hooks;

/* Null takes the hooks away; a call in progress still sees the old ones, which must live for ever. */
void simgpu_set_hooks(const simgpu_hooks* hooks);

uint64_t simgpu_now_ns(void);
int simgpu_initialized(void); /* cuInit has returned in this very process */
int simgpu_driver_version(void);
int simgpu_graph_execs_ever(void);
uint32_t simgpu_device_count(void);

/* Ids for CUPTI. False on an unknown handle. */
int simgpu_context_info(CUcontext context, uint32_t* id, uint32_t* device, uint32_t* null_stream);
int simgpu_stream_id(CUcontext context, CUstream stream, uint32_t* id);
int simgpu_graph_id(CUgraph graph, uint32_t* id);
int simgpu_graph_exec_id(CUgraphExec exec, uint32_t* id);
int simgpu_graph_node_id(CUgraphNode node, uint64_t* id);
/* Calls back for each, in order of creation. */
void simgpu_each_context(void (*visit)(void* user, CUcontext context, uint32_t id, uint32_t device),
                         void* user);
void simgpu_each_stream(void (*visit)(void* user, uint32_t context, uint32_t stream, int priority),
                        void* user);
int simgpu_module_of(CUmodule module, simgpu_module_bytes* bytes);
uint64_t simgpu_cubin_crc(const void* bytes, size_t size);

/* The truth so far as one JSON object on one line. Returns the length without the NUL; cut when capacity is
 * less. Found by dlsym in workloads: a real libcuda does not have it. */
size_t simgpu_truth_json(char* text, size_t capacity);
/* The sum of all executions' durations so far. */
uint64_t simgpu_gpu_ns(void);
/* Writes it to the file of SIMGPU_TRUTH at once; 0 on success. */
int simgpu_truth_write(void);

#ifdef __cplusplus
}
#endif
#endif
