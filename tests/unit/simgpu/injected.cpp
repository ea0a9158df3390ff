// SPDX-License-Identifier: Apache-2.0
#include <unistd.h>

#include <cstdio>

#include "cuda_driver.h"

// Loaded by cuInit in the tests. Says on which thread it runs and what CUDA answers meanwhile.
extern "C" __attribute__((visibility("default"))) int InitializeInjection() {
  int count = 0;
  std::printf("injected_tid %d\ninjected_count %d\ninjected_init %d\n", gettid(), cuDeviceGetCount(&count),
              cuInit(0));
  std::fflush(stdout);
  return 1;
}
