# SPDX-License-Identifier: Apache-2.0
# How Pillion's targets are made: warnings, sanitizers, ccache, and one function per kind of target.

find_program(PILLION_CCACHE ccache)
if(PILLION_CCACHE)
  # Relative paths in the hash: a second checkout of the same tree finds what the first one compiled.
  set(_ccache ${CMAKE_COMMAND} -E env CCACHE_BASEDIR=${CMAKE_SOURCE_DIR} CCACHE_NOHASHDIR=1 ${PILLION_CCACHE})
  set(CMAKE_C_COMPILER_LAUNCHER ${_ccache})
  set(CMAKE_CXX_COMPILER_LAUNCHER ${_ccache})
endif()

find_package(PkgConfig REQUIRED)
find_package(Threads REQUIRED)

add_library(pillion_warnings INTERFACE)
target_compile_options(pillion_warnings INTERFACE -Wall -Wextra -Wshadow -Werror)

if(PILLION_SANITIZE)
  # -O2 takes GCC 12 three times as long here, and finds no more; under AddressSanitizer -O1 does, too, against -O0. -g
  # takes half as long again as -g1, and a report needs functions and lines only.
  set(optimise -O1)
  if(PILLION_SANITIZE MATCHES "address")
    set(optimise -O0)
  endif()
  add_compile_options(-fsanitize=${PILLION_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all ${optimise} -g1)
  # GCC 12 takes what the sanitizers insert for reads of what was never written.
  add_compile_options(-Wno-maybe-uninitialized)
  add_link_options(-fsanitize=${PILLION_SANITIZE})
endif()

# pillion_stage(NAME SOURCES a.cpp... [LIBRARIES ...])
# A stage of the sidecar: one folder, one static library pillion_<NAME>, one namespace.
# Headers are included as "NAME/file.h" from sidecar/ and as "abi/pillion_abi.h" from shim/.
function(pillion_stage name)
  cmake_parse_arguments(ARG "" "" "SOURCES;LIBRARIES" ${ARGN})
  add_library(pillion_${name} STATIC ${ARG_SOURCES})
  target_include_directories(pillion_${name} PUBLIC ${CMAKE_SOURCE_DIR}/sidecar)
  target_include_directories(pillion_${name} PUBLIC ${CMAKE_SOURCE_DIR}/shim)
  target_link_libraries(pillion_${name} PUBLIC ${ARG_LIBRARIES} PRIVATE pillion_warnings)
endfunction()

# pillion_unit_test(NAME SOURCES a.cpp... [LIBRARIES ...] [TIMEOUT seconds])
# A Catch2 program unit_<NAME>, one ctest entry with label unit. Needs neither root nor a GPU.
function(pillion_unit_test name)
  cmake_parse_arguments(ARG "" "TIMEOUT" "SOURCES;LIBRARIES" ${ARGN})
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 120)
  endif()
  find_package(Catch2 3 REQUIRED)
  add_executable(unit_${name} ${ARG_SOURCES})
  target_link_libraries(unit_${name} PRIVATE ${ARG_LIBRARIES} Catch2::Catch2WithMain pillion_warnings)
  target_compile_definitions(unit_${name} PRIVATE PILLION_TESTS_DIR="${CMAKE_SOURCE_DIR}/tests")
  if(PILLION_SANITIZE)
    # The test's own sources only: their assertions are what the optimiser works longest on.
    target_compile_options(unit_${name} PRIVATE -O0)
  endif()
  add_test(NAME unit_${name} COMMAND unit_${name})
  set_tests_properties(unit_${name} PROPERTIES LABELS unit TIMEOUT ${ARG_TIMEOUT})
endfunction()
