// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "simgpu_interface.h"

// The libcuda double's private interface, found in the library that the process has already mapped: this
// double never loads one itself.
namespace simgpu {

struct Driver {
  decltype(&simgpu_set_hooks) set_hooks;
  decltype(&simgpu_now_ns) now_ns;
  decltype(&simgpu_initialized) initialized;
  decltype(&simgpu_driver_version) driver_version;
  decltype(&simgpu_graph_execs_ever) graph_execs_ever;
  decltype(&simgpu_device_count) device_count;
  decltype(&simgpu_context_info) context_info;
  decltype(&simgpu_stream_id) stream_id;
  decltype(&simgpu_graph_id) graph_id;
  decltype(&simgpu_graph_exec_id) graph_exec_id;
  decltype(&simgpu_graph_node_id) graph_node_id;
  decltype(&simgpu_each_context) each_context;
  decltype(&simgpu_each_stream) each_stream;
  decltype(&simgpu_module_of) module_of;
  decltype(&simgpu_cubin_crc) cubin_crc;
};

// Null while no libcuda double is mapped.
const Driver* driver();

}  // namespace simgpu
