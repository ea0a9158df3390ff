// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "base/result.h"
#include "inject/examination.h"
#include "inject/loader_link.h"
#include "inject/target_process.h"

namespace pillion::inject {

// A library that was brought into the target: open there, filled from here.
struct TargetLibrary {
  std::int64_t fd = -1;  // in the target
  std::string path;      // for the target's dlopen
  bool in_memory = true;
};

// Makes an empty file called `name` in the target, as the examination says, and keeps its descriptor in
// `slot` of the loader's.
[[nodiscard]] Result<TargetLibrary> make_library(LoaderLink& loader, const Examination& found,
                                                 const std::string& name, int slot);

// Fills it with the `size` bytes of `source`, from here, so that its memory is charged to this process;
// afterwards nobody can change it.
[[nodiscard]] Result<void> fill_library(const TargetProcess& target, const TargetLibrary& library, int source,
                                        std::uint64_t size);

// dlopen in the target; the linker's own words when it fails.
[[nodiscard]] Result<void> load_library(LoaderLink& loader, const TargetProcess& target,
                                        const Examination& found, const TargetLibrary& library);

// Takes a file's name away again; a memory file has none.
void unlink_library(LoaderLink& loader, const TargetLibrary& library);

}  // namespace pillion::inject
