// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace simgpu {

// What a process's maps show of the real driver, measured on an H200 with driver 580.159: cuInit maps /dev/nvidia0 and
// /dev/nvidiactl; the first context maps /dev/nvidia-uvm as well, and the last one's end unmaps it. Here a page of a
// memory file of that name stands for each. Thread-safe.
void map_devices_for_init();
void context_made();
void context_gone();

}  // namespace simgpu
