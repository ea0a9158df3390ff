// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "cuda_driver.h"

// Modules and their kernels. Nothing here is ever freed: handles and names outlive the module, as the records
// that point at them do.
struct CUfunc_st {
  std::string name;
  CUmodule module;
  std::uint32_t index;          // dense, process-wide: the place of this kernel's name in the truth
  std::uint64_t duration_ns;    // of one execution
  bool duration_from_argument;  // the first parameter, a u64 of nanoseconds, says it
};

struct CUmod_st {
  std::uint32_t id;
  CUcontext context;
  std::string cubin;  // what CUPTI hands over
  std::vector<std::unique_ptr<CUfunc_st>> functions;
  bool loaded;
};

namespace simgpu {

// `image` is PTX text or an ELF cubin. Null when it holds no kernel at all.
CUmodule load_module(CUcontext context, const void* image);
void unload_module(CUmodule module);
CUfunction find_function(CUmodule module, const char* name);
// All modules ever loaded, for the truth.
std::vector<CUmodule> all_modules();
// Kernel names by CUfunc_st::index.
std::vector<std::string> all_kernel_names();

}  // namespace simgpu
