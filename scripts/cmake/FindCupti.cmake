# SPDX-License-Identifier: Apache-2.0
# Finds CUDA's driver header and CUPTI's headers and library. Order: -DCUPTI_ROOT, the toolkit that CMake
# finds, /usr/local/cuda. Sets PILLION_CUDA_INCLUDE (folder of cuda.h and cupti.h, empty when none),
# PILLION_CUPTI_LIBRARY (path of libcupti.so.N, empty when none).
set(CUPTI_ROOT "" CACHE PATH "Folder of a CUDA toolkit or of extras/CUPTI")
set(_roots ${CUPTI_ROOT})
if(NOT CUPTI_ROOT)
  find_package(CUDAToolkit QUIET)
  if(CUDAToolkit_FOUND)
    list(APPEND _roots ${CUDAToolkit_TARGET_DIR} ${CUDAToolkit_BIN_DIR}/..)
  endif()
  list(APPEND _roots /usr/local/cuda)
endif()
find_path(PILLION_CUDA_INCLUDE cupti.h
  PATHS ${_roots} PATH_SUFFIXES include extras/CUPTI/include targets/x86_64-linux/include NO_DEFAULT_PATH)
find_library(PILLION_CUPTI_LIBRARY NAMES cupti
  PATHS ${_roots} PATH_SUFFIXES lib64 lib extras/CUPTI/lib64 targets/x86_64-linux/lib NO_DEFAULT_PATH)
if(PILLION_CUDA_INCLUDE AND EXISTS ${PILLION_CUDA_INCLUDE}/cuda.h)
  message(STATUS "CUPTI headers: ${PILLION_CUDA_INCLUDE}")
  message(STATUS "CUPTI library: ${PILLION_CUPTI_LIBRARY}")
else()
  set(PILLION_CUDA_INCLUDE "")
  message(WARNING "No CUDA toolkit found (tried: ${_roots}). Everything builds against Pillion's own declarations; "
    "SKIPPED: the tests that compare those declarations with NVIDIA's headers and that run the real libcupti. "
    "Give -DCUPTI_ROOT=DIR to have them.")
endif()
