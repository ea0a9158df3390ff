# SPDX-License-Identifier: Apache-2.0
# Target `bundle`: what runs on another machine, in <build folder>/bundle (scripts/bundle says what is in it).
# Part of `all` in builds without sanitizers, whose runtime libraries do not travel.
option(PILLION_BUNDLE_CUPTI "Put the toolkit's libcupti into the bundle" ON)

if(TARGET pillion AND NOT PILLION_SANITIZE)
  find_program(PILLION_PATCHELF patchelf)
  if(NOT PILLION_PATCHELF)
    message(WARNING "patchelf is missing: SKIPPED: the bundle (scripts/setup build installs it)")
    return()
  endif()
  set(_cupti)
  set(_cupti_files)
  if(PILLION_BUNDLE_CUPTI AND PILLION_CUPTI_LIBRARY)
    file(REAL_PATH ${PILLION_CUPTI_LIBRARY} _cupti_files)
    set(_cupti -cupti ${_cupti_files})
  endif()
  # The files, not the targets: a target alone would not make the bundle new when its file changes.
  set(_files ${CMAKE_BINARY_DIR}/pillion ${CMAKE_BINARY_DIR}/libpillion.so)
  add_custom_command(
    OUTPUT ${CMAKE_BINARY_DIR}/bundle.stamp
    COMMAND ${CMAKE_SOURCE_DIR}/scripts/bundle ${_cupti} ${CMAKE_BINARY_DIR}
    COMMAND ${CMAKE_COMMAND} -E touch ${CMAKE_BINARY_DIR}/bundle.stamp
    DEPENDS ${_files} ${_cupti_files} ${CMAKE_SOURCE_DIR}/scripts/bundle
    COMMENT "Collecting the bundle"
    VERBATIM)
  add_custom_target(bundle ALL DEPENDS ${CMAKE_BINARY_DIR}/bundle.stamp)
endif()
