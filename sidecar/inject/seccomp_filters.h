// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "inject/examination.h"
#include "inject/process_folder.h"

namespace pillion::inject {

// A seccomp filter cannot be read without stopping the process (and CAP_SYS_ADMIN), and one that kills ends
// the program at the shim's first call that it does not know. What can be told is who set it: a container
// runtime gives its filter to a container's first process, and forbidden calls fail under it; a filter on top
// of that is the program's own, or a sandbox's, and nothing is known of it.
struct SeccompFilters {
  std::uint32_t mode = 0;          // the strictest of the process's threads: 0 none, 1 strict, 2 filter
  std::uint32_t filters = 0;       // the most that one of its threads has
  std::uint32_t of_container = 0;  // of these, set by a container's runtime
  [[nodiscard]] bool unknown() const { return filters > of_container; }
};

[[nodiscard]] SeccompFilters look_at_filters(const std::string& proc_root, const ProcessFolder& folder,
                                             const ProcessStatus& status);

[[nodiscard]] std::optional<Refusal> judge_filters(const std::string& who, const SeccompFilters& filters);

}  // namespace pillion::inject
