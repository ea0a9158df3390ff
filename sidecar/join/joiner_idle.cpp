// SPDX-License-Identifier: Apache-2.0
// What an idle profile asks of the Joiner.
#include <span>

#include "join/joiner.h"

namespace pillion::join {

void Joiner::visit_waiting(const std::function<void(const Settled&)>& visit) const {
  held_.for_each([&](Key key, const Held& held) {
    pool_.for_each(held.chain, [&](const Execution& execution) { visit(judge(execution, nullptr, key)); });
  });
  launches_.for_each([&](Key key, const Launch& launch) {
    pool_.for_each(launch.waiting,
                   [&](const Execution& execution) { visit(judge(execution, &launch, key)); });
  });
}

std::optional<Settled> Joiner::first_pending(std::uint64_t before_ns) const {
  const Launch* first = nullptr;
  launches_.for_each([&](Key, const Launch& launch) {
    if (launch.executions == 0 && launch.time_ns < before_ns &&
        (first == nullptr || launch.time_ns < first->time_ns))
      first = &launch;
  });
  if (first == nullptr) return std::nullopt;
  Settled settled;
  attribute(*first, settled);
  return settled;
}

void Joiner::spread(const IdleSample& sample, std::vector<IdleSample>& out) const {
  if (sample.launch.attribution != Attribution::context) {
    out.push_back(sample);
    return;
  }
  IdleSample part = sample;
  part.context_key = 0;
  const std::span<const SeenStack> seen = context_stacks_.of(sample.context_key);
  if (seen.empty()) {
    part.launch.attribution = Attribution::unsampled;
    out.push_back(part);
    return;
  }
  std::vector<std::uint64_t> ns, gaps;
  split_by_times(sample.ns, seen, ns);
  split_by_times(sample.gaps, seen, gaps);
  for (std::size_t i = 0; i < seen.size(); ++i) {
    if (ns[i] == 0 && gaps[i] == 0) continue;
    part.launch.stack = seen[i].stack;
    part.ns = ns[i];
    part.gaps = gaps[i];
    out.push_back(part);
  }
}

void Joiner::describe_thread(std::uint32_t tid, WindowData& data) const {
  const auto found = threads_.find(tid);
  if (found != threads_.end()) data.threads.emplace(tid, found->second);
}

}  // namespace pillion::join
