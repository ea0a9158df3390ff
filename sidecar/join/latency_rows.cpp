// SPDX-License-Identifier: Apache-2.0
#include "join/latency_rows.h"

#include <algorithm>
#include <tuple>
#include <utility>

namespace pillion::join {

bool LatencyRows::add(const JoinedSample& sample, bool queue_known, std::size_t rows_max) {
  Key key{sample.device, sample.context,   sample.stream,
          sample.name,   sample.copy_kind, static_cast<std::uint32_t>(sample.kind)};
  const std::size_t* found = index_.find(key);
  bool own = true;
  if (found == nullptr) {
    own = rows_.size() < rows_max;
    if (!own) {
      key = {};
      key.kind = kMerged;
    }
    const auto [place, made] = index_.insert(key);
    if (made) {
      *place = rows_.size();
      LatencyRow row;
      row.merged = !own;
      if (own) {
        row.device = sample.device;
        row.context = sample.context;
        row.stream = sample.stream;
        row.name = sample.name;
        row.copy_kind = sample.copy_kind;
        row.kind = sample.kind;
      }
      rows_.push_back(std::move(row));
    }
    found = place;
  }
  LatencyRow& row = rows_[*found];
  if (queue_known) row.queue.add(sample.queue_ns);
  if (sample.launch_calls != 0) row.call.add(sample.launch_ns);
  return own;
}

std::vector<LatencyRow> LatencyRows::finish() {
  index_.clear();
  std::vector<LatencyRow> out = std::exchange(rows_, {});
  std::sort(out.begin(), out.end(), [](const LatencyRow& a, const LatencyRow& b) {
    const auto order = [](const LatencyRow& r) {
      return std::tie(r.merged, r.device, r.context, r.stream, r.kind, r.name, r.copy_kind);
    };
    return order(a) < order(b);
  });
  return out;
}

}  // namespace pillion::join
