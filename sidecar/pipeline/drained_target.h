// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "base/idle_data.h"
#include "base/python_code_table.h"
#include "base/stack_table.h"
#include "collect/collector.h"
#include "collect/module_store.h"
#include "join/joiner.h"
#include "pipeline/unwind_thread.h"
#include "profile/builder.h"
#include "records.h"
#include "session/messages.h"
#include "timeline/idle_timeline.h"

namespace pillion::pipeline {

// One arming of one process, as the attach thread hands it to the drain thread.
struct ArmedTarget {
  TargetId target = 0;
  std::uint32_t pid = 0;  // as the sidecar sees it
  std::string comm;
  std::string exe;
  session::Armed armed;
  CaptureSettings settings;  // in force
  CaptureSettings asked;     // by ARM
  SharedRings rings;
  std::string python;  // what the shim says of Python frames, for people
};

// Of the Python frames of some stacks and the code objects that name them.
struct PythonTotals {
  std::uint64_t frames = 0;
  std::uint64_t runs = 0;           // of frames that one native frame stands for
  std::uint64_t runs_unplaced = 0;  // whose native frame was not found
  std::uint64_t evals_left = 0;     // native frames of the interpreter's loop without Python frames
  std::uint64_t codes_refused = 0;  // code objects past the table's limits
};

// What one arming gave to one window, for build().
struct WindowPart {
  TargetId target = 0;
  SessionId session = 0;
  std::uint32_t pid = 0;
  std::string comm;
  std::string exe;
  WindowData data;
  std::shared_ptr<const StackTable> stacks;
  std::shared_ptr<const PythonCodeTable> codes;
  profile::TargetQuality quality;
};

// One arming of one process on the drain thread: its rings are emptied, its records joined, its snapshots
// sent to the unwinder. Works on when the process has gone, until its last window is closed.
class DrainedTarget : private RecordSink, private join::SettledObserver {
 public:
  // `session` numbers this arming in `timeline`, which outlives it.
  DrainedTarget(ArmedTarget armed, SessionId session, collect::ModuleStore& modules, UnwindThread& unwinder,
                timeline::IdleTimeline& timeline);
  ~DrainedTarget() override { timeline_.drop_session(session_); }
  DrainedTarget(const DrainedTarget&) = delete;
  DrainedTarget& operator=(const DrainedTarget&) = delete;

  // Until `deadline_ns`, or a ring longer. Returns whether the next drain should follow at once.
  bool drain(std::uint64_t deadline_ns);
  // Passes over all rings that were begun and finished so far.
  [[nodiscard]] std::uint64_t passes() const { return passes_; }
  [[nodiscard]] bool reading() const { return collector_.reading(); }  // in a pass
  void on_unwound(const UnwoundSnapshot& unwound);
  void note_python(const std::string& summary) { armed_.python = summary; }

  // `from_arming`: the window is older than this arming, and what it has counted so far belongs to it.
  // Otherwise the caller has just drained.
  void open_window(join::WindowId id, join::WindowFilter filter, std::uint64_t t0_ns, std::uint64_t t1_ns,
                   bool from_arming);
  void end_window(join::WindowId id, std::uint64_t t1_ns) { joiner_.end_window(id, t1_ns); }
  [[nodiscard]] join::Settlement settlement(join::WindowId id) const { return joiner_.settlement(id); }
  [[nodiscard]] Result<WindowPart> close_window(join::WindowId id, std::uint64_t t1_ns);
  void abandon_window(join::WindowId id);

  // For an idle window that closes: adds what of this session is not settled, executions and launches before
  // `t1_ns`.
  void add_open(std::uint64_t t1_ns, timeline::IdleTimeline::Open& open) const;
  // Puts the stacks and the thread of one of its rows into place, see Joiner::spread().
  void spread(const IdleSample& sample, WindowData& data, std::vector<IdleSample>& out) const;

  // The rings get nothing new: the process has gone or was disarmed. `why` is empty when that was asked for.
  void end(std::string why);
  [[nodiscard]] bool ended() const { return ended_; }
  [[nodiscard]] bool needed() const { return !ended_ || joiner_.open_windows() > 0; }

  [[nodiscard]] TargetId target() const { return armed_.target; }
  [[nodiscard]] SessionId session() const { return session_; }
  [[nodiscard]] std::uint32_t pid() const { return armed_.pid; }
  [[nodiscard]] std::uint64_t generation() const { return armed_.armed.generation; }
  [[nodiscard]] JoinCounters join_counters() const { return joiner_.counters(); }
  [[nodiscard]] const JoinCounters& join_losses() const { return joiner_.losses(); }
  [[nodiscard]] const pillion_counters& shim_counters() { return collector_.shim_counters().read(); }
  [[nodiscard]] const collect::CollectCounts& collect_counts() const { return collector_.counts(); }
  [[nodiscard]] std::uint64_t counters_implausible() const { return collector_.counters_implausible(); }
  [[nodiscard]] std::uint64_t snapshots_dropped() const { return snapshots_dropped_; }
  [[nodiscard]] PythonTotals python_totals() const;
  [[nodiscard]] std::uint64_t gpu_ns() const { return gpu_ns_; }

 private:
  // Totals of this arming at one moment; a window's own are the difference of two.
  struct Totals {
    pillion_counters shim{};
    collect::CollectCounts collect;
    std::uint64_t snapshots_dropped = 0;
    std::uint64_t modules_evicted = 0;
    std::uint64_t counters_implausible = 0;
    PythonTotals python;
  };
  [[nodiscard]] Totals totals();
  [[nodiscard]] profile::TargetQuality quality_since(const Totals& begin);

  void on_launch(const RawLaunch& launch) override { joiner_.on_launch(launch); }
  void on_launch_failed(const RawLaunchFailed& failed) override { joiner_.on_launch_failed(failed); }
  void on_returned(const RawReturned& returned) override { joiner_.on_returned(returned); }
  void on_sync(const RawSync& sync) override { joiner_.on_sync(sync); }
  void on_execution(const RawExecution& execution) override;
  void on_overhead(const RawOverhead& overhead) override { joiner_.on_overhead(overhead); }
  void on_name(RawName name) override { joiner_.on_name(std::move(name)); }
  void on_thread(RawThread thread) override { joiner_.on_thread(std::move(thread)); }
  void on_device(RawDevice device) override;
  void on_context(const RawContext& context) override { note_used(context.device); }
  void on_python_code(RawPythonCode code) override { codes_->add(std::move(code)); }
  void on_snapshot(RawSnapshot snapshot) override;
  void on_settled(const join::Settled& settled) override;
  void on_host_sync(const HostSync& sync) override { timeline_.on_host_sync(session_, sync); }
  void note_used(std::uint32_t device);

  ArmedTarget armed_;  // its rings are the collector's
  const SessionId session_;
  timeline::IdleTimeline& timeline_;
  std::uint64_t devices_used_ = 0;  // bit by the process's own number, of those below 64
  collect::ModuleStore& modules_;
  UnwindThread& unwinder_;
  collect::Collector collector_;
  join::Joiner joiner_;
  std::shared_ptr<StackTable> stacks_ = std::make_shared<StackTable>();
  std::shared_ptr<PythonCodeTable> codes_ = std::make_shared<PythonCodeTable>();
  std::map<join::WindowId, Totals> at_open_;
  std::uint64_t passes_ = 0;
  std::uint64_t snapshots_dropped_ = 0;
  PythonTotals python_;  // but codes_refused, which the table counts
  std::uint64_t gpu_ns_ = 0;
  std::string ended_why_;
  bool ended_ = false;
};

}  // namespace pillion::pipeline
