# SPDX-License-Identifier: Apache-2.0
# The capture side of the shim: everything behind capture.h. Included by shim/CMakeLists.txt and by the unit tests.
set(PILLION_CAPTURE_SOURCES
  activity_buffers.cpp
  activity_recorder.cpp
  arming.cpp
  capture.cpp
  cuda_driver.cpp
  cupti_api.cpp
  cupti_search.cpp
  cupti_version.cpp
  detach.cpp
  graph_threads.cpp
  launch_recorder.cpp
  module_arena.cpp
  module_store.cpp
  name_table.cpp
  proc_maps.cpp
  record_layout.cpp
  sampler.cpp
  stack_bounds.cpp
  stack_snapshot.cpp
  thread_state.cpp)
