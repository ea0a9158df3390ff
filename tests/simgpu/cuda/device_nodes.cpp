// SPDX-License-Identifier: Apache-2.0
#include "cuda/device_nodes.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <mutex>

namespace simgpu {
namespace {

constexpr std::size_t kPage = 4096;

std::mutex g_nodes_mutex;
int g_contexts_alive = 0;
void* g_uvm = MAP_FAILED;

void* map_node(const char* name) {
  const int fd = memfd_create(name, MFD_CLOEXEC);
  if (fd < 0) return MAP_FAILED;
  // The page is never touched, so the file may stay empty.
  void* at = mmap(nullptr, kPage, PROT_READ, MAP_SHARED, fd, 0);
  close(fd);
  return at;
}

}  // namespace

void map_devices_for_init() {
  (void)map_node("/dev/nvidia0");
  (void)map_node("/dev/nvidiactl");
}

void context_made() {
  const std::lock_guard lock(g_nodes_mutex);
  if (g_contexts_alive++ == 0) g_uvm = map_node("/dev/nvidia-uvm");
}

void context_gone() {
  const std::lock_guard lock(g_nodes_mutex);
  if (--g_contexts_alive != 0 || g_uvm == MAP_FAILED) return;
  munmap(g_uvm, kPage);
  g_uvm = MAP_FAILED;
}

}  // namespace simgpu
