// SPDX-License-Identifier: Apache-2.0
#include "join/sync_cells.h"

#include <algorithm>
#include <tuple>

namespace pillion::join {
namespace {

constexpr std::uint16_t code(Attribution attribution) { return static_cast<std::uint16_t>(attribution); }

}  // namespace

bool SyncCells::add(const SyncInterval& call, std::uint64_t ns, bool open, std::size_t cells_max) {
  Key key{call.stack != 0 ? call.stack : call.context_key,
          call.tid,
          call.cbid,
          call.context,
          code(call.stack != 0 ? Attribution::exact : Attribution::context),
          static_cast<std::uint16_t>(open ? 1 : 0)};
  const bool own = cells_.size() < cells_max || cells_.find(key) != nullptr;
  if (!own) key = {0, 0, call.cbid, 0, code(Attribution::other), key.open};
  Cell& cell = *cells_.insert(key).first;
  ++cell.calls;
  cell.ns += ns;
  return own;
}

std::vector<SyncSample> SyncCells::finish(const ContextStacks& stacks) {
  std::vector<SyncSample> out;
  std::vector<std::uint64_t> calls, ns;
  cells_.for_each([&](const Key& key, const Cell& cell) {
    SyncSample sample;
    sample.tid = key.tid;
    sample.cbid = key.cbid;
    sample.context = key.context;
    sample.attribution = static_cast<Attribution>(key.attribution);
    sample.open = key.open != 0;
    if (sample.attribution != Attribution::context) {
      sample.stack = static_cast<StackId>(key.where);
      sample.calls = cell.calls;
      sample.ns = cell.ns;
      out.push_back(sample);
      return;
    }
    static constexpr SeenStack kNobody{0, 1};
    std::span<const SeenStack> seen = stacks.of(key.where);
    if (seen.empty()) {
      sample.attribution = Attribution::unsampled;
      seen = {&kNobody, 1};
    }
    split_by_times(cell.calls, seen, calls);
    split_by_times(cell.ns, seen, ns);
    for (std::size_t i = 0; i < seen.size(); ++i) {
      if (calls[i] == 0 && ns[i] == 0) continue;
      sample.stack = seen[i].stack;
      sample.calls = calls[i];
      sample.ns = ns[i];
      out.push_back(sample);
    }
  });
  cells_.clear();
  std::sort(out.begin(), out.end(), [](const SyncSample& a, const SyncSample& b) {
    const auto order = [](const SyncSample& s) {
      return std::tie(s.context, s.tid, s.cbid, s.attribution, s.stack, s.open, s.ns);
    };
    return order(a) < order(b);
  });
  return out;
}

}  // namespace pillion::join
