// SPDX-License-Identifier: Apache-2.0
#include "join/window.h"

#include <algorithm>
#include <cstring>
#include <tuple>

namespace pillion::join {
namespace {

constexpr std::uint8_t code(Attribution attribution) { return static_cast<std::uint8_t>(attribution); }

void since_open(JoinCounters& out, const JoinCounters& now, const JoinCounters& open) {
  for (auto field :
       {&JoinCounters::host_functions, &JoinCounters::evicted_unjoined, &JoinCounters::launches_duplicate,
        &JoinCounters::failed_unmatched, &JoinCounters::decided_early, &JoinCounters::stacks,
        &JoinCounters::stacks_empty, &JoinCounters::stacks_given_up, &JoinCounters::stacks_unmatched,
        &JoinCounters::context_keys_refused, &JoinCounters::names_refused, &JoinCounters::threads_refused,
        &JoinCounters::overhead_records, &JoinCounters::overhead_ns, &JoinCounters::call_durations_missing,
        &JoinCounters::returns_unmatched, &JoinCounters::syncs_lost}) {
    out.*field = now.*field - open.*field;
  }
  for (std::size_t i = 0; i < out.stacks_by_ending.size(); ++i) {
    out.stacks_by_ending[i] = now.stacks_by_ending[i] - open.stacks_by_ending[i];
  }
}

}  // namespace

std::uint64_t Window::CellHash::operator()(const CellKey& key) const {
  std::uint64_t words[sizeof(CellKey) / 8];
  std::memcpy(words, &key, sizeof(key));
  std::uint64_t hash = kHashSeed;
  for (const std::uint64_t word : words) hash = (hash ^ word) * 0x9e3779b97f4a7c15u + (hash >> 29);
  return mix64(hash);
}

Window::CellKey Window::key_of(const JoinedSample& sample, std::uint64_t where) {
  CellKey key;
  key.where = where;
  key.tid = sample.tid;
  key.device = sample.device;
  key.context = sample.context;
  key.stream = sample.stream;
  key.name = sample.kind == ExecutionKind::copy ? sample.copy_kind : sample.name;
  key.cbid = sample.cbid;
  key.kind = static_cast<std::uint8_t>(sample.kind);
  key.graph = sample.graph ? 1 : 0;
  key.attribution = code(sample.attribution);
  return key;
}

JoinedSample Window::sample_of(const CellKey& key, const Cell& cell) {
  JoinedSample sample;
  sample.tid = key.tid;
  sample.device = key.device;
  sample.context = key.context;
  sample.stream = key.stream;
  sample.kind = static_cast<ExecutionKind>(key.kind);
  (sample.kind == ExecutionKind::copy ? sample.copy_kind : sample.name) = key.name;
  sample.cbid = key.cbid;
  sample.graph = key.graph != 0;
  sample.attribution = static_cast<Attribution>(key.attribution);
  sample.stack = static_cast<StackId>(key.where);
  sample.count = cell.count;
  sample.gpu_ns = cell.gpu_ns;
  sample.queue_ns = cell.queue_ns;
  sample.bytes = cell.bytes;
  sample.launch_calls = cell.launch_calls;
  sample.launch_ns = cell.launch_ns;
  return sample;
}

std::pair<Window::Cell*, bool> Window::place(Cells& cells, CellKey key, std::size_t cells_max) {
  if (cells.size() < cells_max) return {cells.insert(key).first, true};
  if (Cell* found = cells.find(key)) return {found, true};
  // Kernel and device stay exact as long as a quarter more cells can hold them; then all there is becomes
  // one.
  CellKey coarse;
  coarse.device = key.device;
  coarse.name = key.name;
  coarse.kind = key.kind;
  coarse.attribution = code(Attribution::other);
  if (cells.size() < cells_max + cells_max / 4) return {cells.insert(coarse).first, false};
  if (Cell* found = cells.find(coarse)) return {found, false};
  CellKey all;
  all.attribution = code(Attribution::other);
  return {cells.insert(all).first, false};
}

void Window::add(const Settled& settled, const Limits& limits) {
  if (!covers(settled.when_ns)) return;
  const JoinedSample& sample = settled.sample;
  if (filter_.device && *filter_.device != sample.device) return;
  newest_end_ns_ = std::max(newest_end_ns_, settled.end_ns);
  ++counters_.executions;
  if (sample.attribution == Attribution::before_session) {
    ++counters_.launched_before;
  } else if (sample.attribution == Attribution::launch_lost) {
    ++counters_.launch_lost;
  } else {
    ++counters_.joined;
  }
  if (settled.stamp_fault != nullptr) ++(counters_.*settled.stamp_fault);
  const std::uint64_t where = sample.attribution == Attribution::context ? settled.context_key : sample.stack;
  const auto [cell, own] = place(cells_, key_of(sample, where), limits.cells_max);
  if (!own) ++counters_.cells_merged;
  cell->count += sample.count;
  cell->gpu_ns += sample.gpu_ns;
  cell->queue_ns += sample.queue_ns;
  cell->bytes += sample.bytes;
  cell->launch_calls += sample.launch_calls;
  cell->launch_ns += sample.launch_ns;
  if ((settled.queue_known || sample.launch_calls != 0) &&
      !latencies_.add(sample, settled.queue_known, limits.latency_rows_max)) {
    ++counters_.latency_rows_merged;
  }
}

void Window::add_sync(const SyncInterval& call, const Limits& limits) {
  const bool open = call.end_ns == 0 || call.end_ns > t1_ns_;
  const std::uint64_t from = std::max(call.start_ns, t0_ns_);
  const std::uint64_t until = open ? t1_ns_ : call.end_ns;
  if (call.start_ns >= t1_ns_ || until < t0_ns_ || until < from) return;
  if (call.start_ns < t0_ns_ && until == t0_ns_) return;  // it was over when the window began
  ++counters_.syncs;
  counters_.syncs_open += open ? 1 : 0;
  if (!syncs_.add(call, until - from, open, limits.sync_cells_max)) ++counters_.sync_cells_merged;
}

Window::Cells Window::spread(const ContextStacks& stacks, std::size_t cells_max) {
  Cells out;
  std::vector<std::uint64_t> count, gpu, queue, bytes, calls, call_ns;
  cells_.for_each([&](const CellKey& key, const Cell& cell) {
    CellKey to = key;
    if (key.attribution != code(Attribution::context)) {
      Cell& same = *place(out, to, cells_max * 2).first;
      same = {same.count + cell.count,
              same.gpu_ns + cell.gpu_ns,
              same.queue_ns + cell.queue_ns,
              same.bytes + cell.bytes,
              same.launch_calls + cell.launch_calls,
              same.launch_ns + cell.launch_ns};
      return;
    }
    static constexpr SeenStack kNobody{0, 1};
    std::span<const SeenStack> seen = stacks.of(key.where);
    if (seen.empty()) {
      to.attribution = code(Attribution::unsampled);
      seen = {&kNobody, 1};
    }
    split_by_times(cell.count, seen, count);
    split_by_times(cell.gpu_ns, seen, gpu);
    split_by_times(cell.queue_ns, seen, queue);
    split_by_times(cell.bytes, seen, bytes);
    split_by_times(cell.launch_calls, seen, calls);
    split_by_times(cell.launch_ns, seen, call_ns);
    for (std::size_t i = 0; i < seen.size(); ++i) {
      if (count[i] == 0 && gpu[i] == 0 && queue[i] == 0 && bytes[i] == 0 && calls[i] == 0 && call_ns[i] == 0)
        continue;
      to.where = seen[i].stack;
      const auto [part, own] = place(out, to, cells_max * 2);
      if (!own) counters_.cells_merged += count[i];
      *part = {part->count + count[i], part->gpu_ns + gpu[i],         part->queue_ns + queue[i],
               part->bytes + bytes[i], part->launch_calls + calls[i], part->launch_ns + call_ns[i]};
    }
  });
  return out;
}

WindowData Window::finish(const ContextStacks& stacks, const JoinCounters& now, std::size_t cells_max) {
  WindowData data;
  data.t0_ns = t0_ns_;
  data.t1_ns = std::max(t1_ns_, newest_end_ns_ == 0 ? t1_ns_ : newest_end_ns_ + 1);
  since_open(counters_, now, at_open_);
  const Cells cells = spread(stacks, cells_max);
  data.samples.reserve(cells.size());
  cells.for_each([&](const CellKey& key, const Cell& cell) { data.samples.push_back(sample_of(key, cell)); });
  std::sort(data.samples.begin(), data.samples.end(), [](const JoinedSample& a, const JoinedSample& b) {
    const auto order = [](const JoinedSample& s) {
      return std::tie(s.device, s.context, s.stream, s.tid, s.kind, s.name, s.copy_kind, s.cbid, s.graph,
                      s.attribution, s.stack);
    };
    return order(a) < order(b);
  });
  data.latencies = latencies_.finish();
  data.syncs = syncs_.finish(stacks);
  data.counters = counters_;
  cells_.clear();
  return data;
}

}  // namespace pillion::join
