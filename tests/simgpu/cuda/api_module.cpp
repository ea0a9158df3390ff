// SPDX-License-Identifier: Apache-2.0
#include "cuda/call.h"
#include "cuda/module.h"
#include "cuda_driver.h"

namespace {

using simgpu::traced;

CUresult load(const simgpu_call& call, CUmodule* module, const void* image) {
  if (module == nullptr || image == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *module = simgpu::load_module(call.context, image);
  if (*module == nullptr) return CUDA_ERROR_INVALID_IMAGE;
  simgpu_module_bytes bytes{};
  simgpu_module_of(*module, &bytes);
  simgpu::tell_resource(simgpu::kModuleLoaded, call.context, nullptr, &bytes);
  return CUDA_SUCCESS;
}

}  // namespace

extern "C" {

CUresult cuModuleLoadData(CUmodule* module, const void* image) {
  const struct {
    CUmodule* module;
    const void* image;
  } parameters{module, image};
  return traced({19, "cuModuleLoadData"}, parameters,
                [&](simgpu_call& call) { return load(call, module, image); });
}

CUresult cuModuleLoadDataEx(CUmodule* module, const void* image, unsigned int count, int* options,
                            void** values) {
  const struct {
    CUmodule* module;
    const void* image;
    unsigned int count;
    int* options;
    void** values;
  } parameters{module, image, count, options, values};
  return traced({20, "cuModuleLoadDataEx"}, parameters,
                [&](simgpu_call& call) { return load(call, module, image); });
}

CUresult cuModuleUnload(CUmodule module) {
  const struct { CUmodule module; } parameters{module};
  return traced({22, "cuModuleUnload"}, parameters, [&](simgpu_call& call) -> CUresult {
    simgpu_module_bytes bytes{};
    if (simgpu_module_of(module, &bytes) == 0 || !module->loaded) return CUDA_ERROR_INVALID_HANDLE;
    simgpu::tell_resource(simgpu::kModuleUnloadStarting, call.context, nullptr, &bytes);
    simgpu::unload_module(module);
    return CUDA_SUCCESS;
  });
}

CUresult cuModuleGetFunction(CUfunction* function, CUmodule module, const char* name) {
  const struct {
    CUfunction* function;
    CUmodule module;
    const char* name;
  } parameters{function, module, name};
  return traced({23, "cuModuleGetFunction"}, parameters, [&](simgpu_call&) -> CUresult {
    if (function == nullptr || name == nullptr) return CUDA_ERROR_INVALID_VALUE;
    if (module == nullptr || !module->loaded) return CUDA_ERROR_INVALID_HANDLE;
    *function = simgpu::find_function(module, name);
    return *function != nullptr ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
  });
}

CUresult cuFuncGetName(const char** name, CUfunction function) {
  if (function == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *name = function->name.c_str();
  return CUDA_SUCCESS;
}

CUresult cuFuncGetModule(CUmodule* module, CUfunction function) {
  if (function == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *module = function->module;
  return CUDA_SUCCESS;
}
}
