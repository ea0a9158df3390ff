// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "inject/examination.h"
#include "inject/mapped_files.h"
#include "inject/process_folder.h"
#include "inject/target_memory.h"

namespace pillion::inject {

// What a process has loaded, and whether a library can be loaded into it.
struct TargetProgram {
  TargetFunctions functions;
  std::string c_library;                // "glibc, with symbols up to 2.36", "musl", "none"; for people
  std::string c_library_path;           // of libc.so.6, as maps names it; empty: none
  std::vector<std::string> not_loaded;  // of the libraries that the shim asks for
  std::string cuda_library;             // path of the mapped libcuda; empty: none
  std::string cupti_library;            // path of the mapped libcupti; empty: none
  std::string shim_library;             // path of the mapped libpillion; empty: none
  std::optional<Refusal> refusal;       // set: why not; `functions` is incomplete then
};

// `who` begins the sentences of refusals: "process 12 (train)". `thread`: one of the process that is alive; a
// leader that has ended has neither memory nor program.
[[nodiscard]] TargetProgram look_at_program(const std::string& who, const ProcessFolder& folder,
                                            std::uint32_t thread);

}  // namespace pillion::inject
