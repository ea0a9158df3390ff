// SPDX-License-Identifier: Apache-2.0
#include "timeline/idle_window.h"

#include <algorithm>
#include <tuple>

namespace pillion::timeline {
namespace {

constexpr std::uint64_t cell_key(std::uint32_t launch, IdleCause cause, IdleEdge edge) {
  return std::uint64_t{launch} << 16 | static_cast<std::uint64_t>(cause) << 8 |
         static_cast<std::uint64_t>(edge);
}

}  // namespace

// Charges what a sweep of one device finds.
class IdleWindow::Charge : public SweepSite {
 public:
  Charge(IdleWindow& window, Device& device, SessionDevice first_member, bool cut, const Sources& sources)
      : window_(window), device_(device), first_member_(first_member), cut_(cut), sources_(sources) {}

  void on_idle(const IdlePart& part) override {
    device_.idle_ns[static_cast<std::size_t>(part.cause)] += part.end_ns - part.begin_ns;
    window_.charge(launch_of(part), part, sources_);
  }

  [[nodiscard]] std::uint64_t waited_ns(const Interval& launch, std::uint64_t after_ns,
                                        std::uint64_t until_ns) const override {
    const LaunchTable& launches = sources_.launches;
    return sources_.waits.waited_ns(launches.session(launch.who), launches.tid(launch.who), after_ns,
                                    until_ns);
  }

 private:
  [[nodiscard]] std::uint32_t launch_of(const IdlePart& part) const {
    if (part.ended_by != nullptr) return part.ended_by->who;
    const auto [session, device] = first_member_;
    return cut_ ? sources_.launches.merged(session, device) : sources_.launches.none(session, device);
  }

  IdleWindow& window_;
  Device& device_;
  const SessionDevice first_member_;
  const bool cut_;
  const Sources& sources_;
};

void IdleWindow::end_at(std::uint64_t t1_ns) {
  for (const auto& [name, device] : devices_) t1_ns = std::max(t1_ns, device.decided_ns);
  t1_ns_ = std::min(t1_ns_, t1_ns);
}

void IdleWindow::enter(SessionId session) {
  if (std::find(sessions_.begin(), sessions_.end(), session) == sessions_.end()) sessions_.push_back(session);
}

bool IdleWindow::covers(const SessionDevice& device) const {
  if (device_ && *device_ != device.second) return false;
  return std::find(sessions_.begin(), sessions_.end(), device.first) != sessions_.end();
}

const std::string& IdleWindow::name_of(const SessionDevice& device, const std::string& name_now) {
  return names_.try_emplace(device, name_now).first->second;
}

std::uint64_t IdleWindow::decided_ns(const std::string& name) const {
  const auto found = devices_.find(name);
  return found == devices_.end() ? t0_ns_ : found->second.decided_ns;
}

void IdleWindow::decide(const std::string& name, std::span<const Interval> sorted, std::uint64_t to_ns,
                        SweepEnd end, const Interval* pending, SessionDevice first_member,
                        const Sources& sources) {
  Device& device = devices_.try_emplace(name, Device{t0_ns_, {}, {}}).first->second;
  const std::uint64_t until_ns = std::min(to_ns, t1_ns_);
  if (until_ns <= device.decided_ns) return;
  Sweep over{sorted, device.decided_ns, until_ns, device.decided_ns == t0_ns_, end, pending};
  Charge site(*this, device, first_member, end == SweepEnd::cut, sources);
  device.decided_ns = sweep(over, site, device.sums);
}

void IdleWindow::charge(std::uint32_t launch, const IdlePart& part, const Sources& sources) {
  std::uint64_t key = cell_key(launch, part.cause, part.edge);
  if (cells_.size() >= sources.cells_max && cells_.find(key) == nullptr) {
    launch = sources.launches.merged(sources.launches.session(launch), sources.launches.device(launch));
    key = cell_key(launch, part.cause, part.edge);
  }
  if (sources.launches.is_merged(launch)) ++counters_.gaps_merged;
  Cell& cell = *cells_.insert(key).first;
  ++cell.gaps;
  cell.ns += part.end_ns - part.begin_ns;
}

IdleData IdleWindow::finish(const LaunchTable& launches,
                            const std::map<std::string, std::vector<SessionDevice>>& members) {
  IdleData data;
  data.counters = counters_;
  data.samples.reserve(cells_.size());
  cells_.for_each([&](CellKey key, const Cell& cell) {
    IdleSample sample = launches.sample(static_cast<std::uint32_t>(key >> 16));
    sample.cause = static_cast<IdleCause>(key >> 8 & 0xff);
    sample.edge = static_cast<IdleEdge>(key & 0xff);
    sample.gaps = cell.gaps;
    sample.ns = cell.ns;
    data.samples.push_back(sample);
  });
  std::sort(data.samples.begin(), data.samples.end(), [](const IdleSample& a, const IdleSample& b) {
    const auto order = [](const IdleSample& s) {
      return std::tuple(s.session, s.launch.device, s.launch.tid, s.launch.context, s.launch.stream,
                        s.launch.kind, s.launch.cbid, s.launch.graph, s.launch.attribution, s.launch.stack,
                        s.context_key, s.ended, s.pending, s.cause, s.edge);
    };
    return order(a) < order(b);
  });
  for (const auto& [name, device] : devices_) {
    DeviceUse use;
    const auto known = members.find(name);
    if (known != members.end()) {
      for (const auto& [session, number] : known->second) use.members.push_back({session, number});
    }
    use.window_ns = t1_ns_ - t0_ns_;
    use.busy_ns = device.sums.busy_ns;
    use.kernel_ns = device.sums.kernel_ns;
    use.kernel_busy_ns = device.sums.kernel_busy_ns;
    use.idle_ns = device.idle_ns;
    data.devices.push_back(std::move(use));
  }
  cells_.clear();
  return data;
}

}  // namespace pillion::timeline
