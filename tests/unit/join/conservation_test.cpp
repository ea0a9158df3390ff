// SPDX-License-Identifier: Apache-2.0
// Random sessions, told to the Joiner as rings would tell them, against a truth kept by hand.
#include <algorithm>
#include <array>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/generators/catch_generators_range.hpp>
#include <map>
#include <random>
#include <variant>
#include <vector>

#include "join/joiner.h"
#include "records.h"

namespace pillion::join {
namespace {

constexpr std::uint64_t kMs = 1'000'000;
constexpr std::uint64_t kDrainEvery = 50 * kMs;
constexpr std::uint64_t kLength = 3 * kSecond;
constexpr std::uint64_t kLate = 400 * kMs;  // the longest way of any record or stack

constexpr std::uint32_t kFirst = 0xffffffffu - 3000;  // correlations wrap on the way

struct StackRecord {
  std::uint32_t correlation;
  std::uint64_t context_key;
  StackId stack;
};
using Record = std::variant<RawLaunch, RawLaunchFailed, RawExecution, StackRecord>;
struct Pushed {
  std::uint64_t at;
  std::size_t ring;
  Record record;
};
struct TrueExecution {
  RawExecution raw;
  std::uint64_t when;  // decides the window
  bool valid;
  bool launch_known;
  StackId stack;  // 0: not sampled
  std::uint64_t queue_ns;
};

struct Truth {
  std::vector<Pushed> pushed;  // by time
  std::vector<TrueExecution> executions;
  std::vector<std::pair<std::uint64_t, bool>> launches;  // recorded ones: time, failed
};

class World {
 public:
  explicit World(unsigned seed) : random_(seed) {}

  Truth run() {
    // Launches before arming: only their executions are seen.
    for (std::uint32_t i = 0; i < 50; ++i)
      execute(launch_at(kFirst - 100 + i, kArmed - below(100 * kMs)), false, 0);
    std::uint32_t correlation = kFirst;
    std::uint64_t now = kArmed;
    while (now < kArmed + kLength) {
      now += below(2 * kMs / 3) + 1;
      correlation += 1 + static_cast<std::uint32_t>(below(3));
      one_launch(launch_at(correlation, now));
    }
    std::stable_sort(truth_.pushed.begin(), truth_.pushed.end(),
                     [](const Pushed& a, const Pushed& b) { return a.at < b.at; });
    return std::move(truth_);
  }

 private:
  std::uint64_t below(std::uint64_t limit) { return random_() % limit; }
  bool one_in(std::uint64_t n) { return below(n) == 0; }

  RawLaunch launch_at(std::uint32_t correlation, std::uint64_t now) {
    const bool graph = one_in(20);
    RawLaunch raw =
        launch(correlation, now, one_in(4), below(40), graph ? LaunchKind::graph : LaunchKind::kernel);
    raw.tid = static_cast<std::uint32_t>(1 + below(8));
    return raw;
  }

  void push(std::uint64_t at, Record record) { truth_.pushed.push_back({at, below(5), std::move(record)}); }

  void one_launch(const RawLaunch& raw) {
    const bool recorded = !one_in(50);
    if (recorded) push(raw.time_ns, raw);
    if (one_in(30)) {
      if (recorded) truth_.launches.emplace_back(raw.time_ns, true);
      if (recorded) push(raw.time_ns + below(kMs), RawLaunchFailed{raw.correlation, 1});
      return;
    }
    if (recorded) truth_.launches.emplace_back(raw.time_ns, false);
    StackId stack = 0;
    if (raw.has_snapshot) {
      stack = one_in(10) ? 0 : static_cast<StackId>(1 + raw.context_key * 3 + below(3));
      push(raw.time_ns + below(kLate), StackRecord{raw.correlation, raw.context_key, stack});
    }
    const std::uint64_t nodes = raw.kind == LaunchKind::graph ? 1 + below(12) : 1;
    for (std::uint64_t node = 0; node < nodes; ++node) execute(raw, recorded, recorded ? stack : 0);
  }

  void execute(const RawLaunch& of, bool launch_known, StackId stack) {
    RawExecution raw = kernel(of.correlation, of.time_ns + below(5 * kMs), 0);
    raw.end_ns = raw.start_ns + below(30 * kMs);
    raw.name = static_cast<std::uint32_t>(1 + below(5));
    raw.stream = static_cast<std::uint32_t>(below(4));
    raw.device = static_cast<std::uint32_t>(below(2));
    raw.graph = of.kind == LaunchKind::graph ? 9 : 0;
    raw.bytes = below(1000);
    const std::uint64_t seen_at = raw.end_ns + 1 + below(kLate);
    bool valid = true;
    if (launch_known && one_in(40)) {
      valid = false;
      (one_in(2) ? raw.start_ns : raw.end_ns) = 0;
    }
    if (one_in(60)) return;  // lost on the way
    push(seen_at, raw);
    const std::uint64_t queue =
        valid && launch_known && raw.start_ns > of.time_ns ? raw.start_ns - of.time_ns : 0;
    truth_.executions.push_back({raw, valid ? raw.end_ns : of.time_ns, valid, launch_known, stack, queue});
  }

  std::mt19937_64 random_;
  Truth truth_;
};

struct PlannedWindow {
  WindowId id;
  std::uint64_t t0, t1;
  WindowFilter filter;
};

// Tells the Joiner what the rings hold, drain by drain: ring order within a ring, none across, and each ring
// read at its own moment within the drain.
std::map<WindowId, WindowData> tell(const Truth& truth, std::vector<PlannedWindow> plan, unsigned seed) {
  std::mt19937_64 random(seed * 7919u + 1);
  Session s;
  std::map<WindowId, WindowData> closed;
  std::array<std::vector<const Pushed*>, 5> rings;
  for (const Pushed& p : truth.pushed) rings[p.ring].push_back(&p);
  std::array<std::size_t, 5> read{};
  const std::uint64_t until = kArmed + kLength + 4 * kLate;
  for (std::uint64_t now = kArmed; now < until; now += kDrainEvery) {
    for (const PlannedWindow& w : plan) {
      if (w.t0 == now) REQUIRE(s.joiner.open_window(w.id, w.filter, w.t0, w.t1));
      if (w.t1 + 2 * kLate <= now && !closed.contains(w.id)) {
        CHECK(s.joiner.settlement(w.id).executions_settled());
        closed.emplace(w.id, std::move(*s.joiner.close_window(w.id, w.t1)));
      }
    }
    s.joiner.on_drain_cycle(now);
    std::uint64_t moment = now;
    std::array<std::size_t, 5> order{0, 1, 2, 3, 4};
    std::shuffle(order.begin(), order.end(), random);
    for (const std::size_t ring : order) {
      moment += random() % kMs;
      for (auto& at = read[ring]; at < rings[ring].size() && rings[ring][at]->at < moment; ++at) {
        const Record& record = rings[ring][at]->record;
        if (const auto* l = std::get_if<RawLaunch>(&record)) s.joiner.on_launch(*l);
        if (const auto* f = std::get_if<RawLaunchFailed>(&record)) s.joiner.on_launch_failed(*f);
        if (const auto* e = std::get_if<RawExecution>(&record)) s.joiner.on_execution(*e);
        if (const auto* t = std::get_if<StackRecord>(&record)) {
          s.joiner.on_stack(t->correlation, t->context_key, t->stack, StackEnding::rooted);
        }
      }
    }
  }
  REQUIRE(closed.size() == plan.size());
  return closed;
}

void compare(const Truth& truth, const PlannedWindow& window, const WindowData& data) {
  using PerKernel = std::map<std::uint32_t, Totals>;
  PerKernel expected_kernels, got_kernels, expected_exact, got_exact;
  std::uint64_t joined = 0, orphans = 0, invalid = 0;
  const auto add = [](Totals& to, std::uint64_t n, std::uint64_t gpu, std::uint64_t queue,
                      std::uint64_t bytes) {
    to = {to.count + n, to.gpu_ns + gpu, to.queue_ns + queue, to.bytes + bytes};
  };
  for (const TrueExecution& e : truth.executions) {
    if (e.when < window.t0 || e.when >= window.t1) continue;
    if (window.filter.device && *window.filter.device != e.raw.device) continue;
    const std::uint64_t gpu = e.valid ? e.raw.end_ns - e.raw.start_ns : 0;
    add(expected_kernels[e.raw.name], 1, gpu, e.queue_ns, e.raw.bytes);
    if (e.stack != 0) add(expected_exact[e.stack], 1, gpu, e.queue_ns, e.raw.bytes);
    ++(e.launch_known ? joined : orphans);
    invalid += e.valid ? 0 : 1;
  }
  for (const JoinedSample& s : data.samples) {
    add(got_kernels[s.name], s.count, s.gpu_ns, s.queue_ns, s.bytes);
    if (s.attribution == Attribution::exact) add(got_exact[s.stack], s.count, s.gpu_ns, s.queue_ns, s.bytes);
  }
  CHECK(got_kernels == expected_kernels);
  CHECK(got_exact == expected_exact);
  CHECK(data.counters.joined == joined);
  CHECK(data.counters.launched_before + data.counters.launch_lost == orphans);
  CHECK(data.counters.invalid_zero == invalid);
  CHECK(data.counters.launches_duplicate == 0);
  std::uint64_t launches = 0, failed = 0;
  for (const auto& [time, has_failed] : truth.launches) {
    if (time < window.t0 || time >= window.t1) continue;
    ++launches;
    failed += has_failed ? 1 : 0;
  }
  CHECK(data.counters.launches == launches);
  CHECK(data.counters.launches_failed == failed);
}

TEST_CASE("every execution counts once in each window in which it ended, to the nanosecond") {
  const auto seed = static_cast<unsigned>(GENERATE(range(1, 13)));
  CAPTURE(seed);
  const Truth truth = World(seed).run();
  REQUIRE(truth.executions.size() > 5000);
  const std::vector<PlannedWindow> plan = {
      {1, kArmed, kArmed + kLength, {}},
      {2, kArmed + 500 * kMs, kArmed + 1500 * kMs, {}},
      {3, kArmed + 1500 * kMs, kArmed + 2500 * kMs + 12'345, {}},
      {4, kArmed + 1000 * kMs, kArmed + 2000 * kMs + 1, {.device = 1}},
  };
  const auto closed = tell(truth, plan, seed);
  for (const PlannedWindow& window : plan) {
    CAPTURE(window.id);
    compare(truth, window, closed.at(window.id));
  }
}

}  // namespace
}  // namespace pillion::join
