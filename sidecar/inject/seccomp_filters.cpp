// SPDX-License-Identifier: Apache-2.0
#include "inject/seccomp_filters.h"

#include <algorithm>

namespace pillion::inject {
namespace {

constexpr std::uint32_t kStrict = 1;
constexpr std::size_t kAncestorsMax = 1'024;

std::optional<ProcessStatus> status_of(const std::string& proc_root, std::uint32_t pid) {
  const auto folder = ProcessFolder::open(proc_root, pid);
  const auto text = folder ? folder->read("status") : tl::make_unexpected(folder.error());
  if (!text) return std::nullopt;
  return parse_status(*text);
}

// The filters that the first process of the target's container has: of the ancestors that live in the
// target's PID namespace the outermost one. A first process cannot be told from one that set a filter itself:
// one filter is taken for the runtime's.
std::uint32_t filters_of_container(const std::string& proc_root, const ProcessStatus& target) {
  const std::size_t depth = target.pids.size();
  ProcessStatus first = target;
  bool is_target = true;
  for (std::size_t steps = 0; steps < kAncestorsMax && first.parent != 0; ++steps) {
    const auto parent = status_of(proc_root, first.parent);
    if (!parent || parent->pids.size() != depth) break;
    first = *parent;
    is_target = false;
  }
  return is_target ? 1 : first.seccomp_filters;
}

}  // namespace

SeccompFilters look_at_filters(const std::string& proc_root, const ProcessFolder& folder,
                               const ProcessStatus& status) {
  SeccompFilters found;
  for (const auto thread : folder.threads()) {
    const auto text = folder.read("task/" + std::to_string(thread) + "/status");
    if (!text) continue;
    const ProcessStatus of_thread = parse_status(*text);
    found.filters = std::max(found.filters, of_thread.seccomp_filters);
    if (found.mode != kStrict && of_thread.seccomp != 0) found.mode = of_thread.seccomp;
  }
  if (found.filters > 0) found.of_container = filters_of_container(proc_root, status);
  return found;
}

std::optional<Refusal> judge_filters(const std::string& who, const SeccompFilters& filters) {
  if (filters.mode == kStrict)
    return Refusal{RefusalReason::seccomp,
                   who + " runs in seccomp's strict mode, and the shim's first call would end it",
                   "a program in this mode cannot be profiled"};
  if (!filters.unknown()) return std::nullopt;
  return Refusal{RefusalReason::seccomp,
                 who + " has a seccomp filter of its own (" + std::to_string(filters.filters) + " in all, " +
                     std::to_string(filters.of_container) +
                     " of its container), and one that kills would end it",
                 "start it with CUDA_INJECTION64_PATH naming libpillion.so and a filter that allows what the "
                 "shim calls; or "
                 "take the risk with -force, if the filter only makes calls fail"};
}

}  // namespace pillion::inject
