// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>

#include "inject/examination.h"
#include "inject/process_folder.h"
#include "inject/target_program.h"

namespace pillion::inject {

// How the shim's file can reach a process whose root may be another than ours.
struct DeliveryPath {
  bool memfd = false;          // /proc/self/fd is there for it
  std::string no_memfd;        // why not; for people
  std::string file_directory;  // in its root: where we may put a file that it may execute; empty: nowhere
  std::string lacking;         // a library that the shim asks for and that is not there; empty: none
};

// `thread`: one that is alive. Follows links within the process's root only.
[[nodiscard]] DeliveryPath look_for_delivery(const ProcessFolder& folder, std::uint32_t thread,
                                             const ProcessStatus& status, std::uint64_t start_time,
                                             const TargetProgram& program);

[[nodiscard]] std::optional<Refusal> judge_delivery(const std::string& who, const DeliveryPath& path);

}  // namespace pillion::inject
