// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <unordered_map>
#include <vector>

#include "base/flat_map.h"
#include "base/host_sync.h"
#include "base/idle_data.h"
#include "base/result.h"
#include "base/window_data.h"
#include "join/context_stacks.h"
#include "join/execution.h"
#include "join/limits.h"
#include "join/sync_calls.h"
#include "join/window.h"
#include "records.h"

namespace pillion::join {

// What still stands between a window and its end.
struct Settlement {
  std::uint64_t executions_without_launch =
      0;  // in the window, held for at most Limits::hold_drains more drains
  std::uint64_t executions_without_stack = 0;  // in the window; their launch's snapshot is being unwound
  std::uint64_t syncs_without_stack = 0;       // returned, under way in the window
  std::uint64_t launches_pending =
      0;  // launched before the window's end, no execution seen; 1,000 stands for
          // more. May never come down: launches under stream capture have none
  // After a FLUSHED whose begun_ns is not before the window's end has been drained, this is all that matters.
  [[nodiscard]] bool executions_settled() const {
    return executions_without_launch == 0 && executions_without_stack == 0 && syncs_without_stack == 0;
  }
};

// Sees each execution once, when all is known of it that will be. On the Joiner's thread.
class SettledObserver {
 public:
  virtual ~SettledObserver() = default;
  virtual void on_settled(const Settled& settled) = 0;
  // A synchronisation call has returned, or a copy that waited; as soon as that is known.
  virtual void on_host_sync(const HostSync& sync) { (void)sync; }
};

// Brings launches, executions and stacks of one target session together and adds them up into windows.
// One owner thread (the one that drains) calls everything; WindowData is moved out and belongs to the caller.
// Records may come in any order: rings have none between them, and stacks take their own way.
//
// An execution counts, with its full duration, in each open window in which it ended: t0 <= end < t1. Nothing
// that was already drained when a window is opened can be in it, so t0 must not be before the newest drain
// began.
class Joiner {
 public:
  static constexpr std::uint64_t kOpenEnd = std::numeric_limits<std::uint64_t>::max();

  explicit Joiner(TargetId target, Limits limits = {});

  // ARMED came. Before any record of the session; forgets everything but open windows (correlations restart).
  void on_session(std::uint64_t armed_ns);

  void on_launch(const RawLaunch& launch);
  void on_launch_failed(const RawLaunchFailed& failed);
  void on_returned(const RawReturned& returned);
  void on_sync(const RawSync& sync);
  void on_execution(const RawExecution& execution);
  void on_overhead(const RawOverhead& overhead);
  void on_name(RawName name);
  void on_thread(RawThread thread);
  void on_device(RawDevice device);

  // A snapshot has become a stack, or never will (`stack` 0: dropped on the way, table full). Any time before
  // or after the launch or its executions; once for each published snapshot, else its launch waits
  // stack_wait_ns.
  void on_stack(std::uint32_t correlation, std::uint64_t context_key, StackId stack, StackEnding ending);

  // The session's records are complete: no return comes any more. Executions that wait for one are settled
  // without it, and calls that have not returned count up to `now_ns`.
  void on_session_end(std::uint64_t now_ns);

  // Once per drain of all of the target's rings, after their heads were read and before a record is
  // delivered. `now_ns`: CLOCK_MONOTONIC at that moment, so nothing that is delivered ended later.
  void on_drain_cycle(std::uint64_t now_ns);

  // Fails when the id is open, too many are, or t1 <= t0. Give t1 when it is known: records that end later
  // are then kept out however late the window is closed.
  [[nodiscard]] Result<void> open_window(WindowId id, WindowFilter filter, std::uint64_t t0_ns,
                                         std::uint64_t t1_ns = kOpenEnd);
  // Brings the end of a window forward, for one that was opened without or must end early. Exact when no
  // drain has begun after `t1_ns`; what had been added by then stays, and WindowData::t1_ns says so.
  void end_window(WindowId id, std::uint64_t t1_ns);
  // All zero for an unknown id. Walks what waits: for the end of a window, not for every drain.
  [[nodiscard]] Settlement settlement(WindowId id) const;
  // end_window(), then decides for this window what is still open: executions without launch count as
  // launched before (or lost), those without stack by context key; other windows may still see them settle
  // better.
  [[nodiscard]] Result<WindowData> close_window(WindowId id, std::uint64_t t1_ns);
  void abandon_window(WindowId id);

  // For a profile that looks at the same executions otherwise. `observer` outlives this or is taken back with
  // nullptr.
  void observe(SettledObserver* observer) { observer_ = observer; }
  // The executions that are not settled yet, as they would be now.
  void visit_waiting(const std::function<void(const Settled&)>& visit) const;
  // The first launch before `before_ns` of which no execution has come, with what a launch alone tells: all
  // that is of an execution is 0. Walks the table.
  [[nodiscard]] std::optional<Settled> first_pending(std::uint64_t before_ns) const;
  // Idle time with attribution context goes to the stacks seen for its key, to the last nanosecond; other
  // comes out as it is.
  void spread(const IdleSample& sample, std::vector<IdleSample>& out) const;
  // Adds the thread's name to data.threads, where it is known.
  void describe_thread(std::uint32_t tid, WindowData& data) const;

  [[nodiscard]] std::size_t open_windows() const { return windows_.size(); }

  // Since this Joiner was made. `pending` is the number of launches waiting now.
  [[nodiscard]] JoinCounters counters() const;
  // The same without `pending`, for which the whole table is walked.
  [[nodiscard]] const JoinCounters& losses() const { return counters_; }
  [[nodiscard]] const std::map<std::uint32_t, RawDevice>& devices() const { return devices_; }

 private:
  enum class StackState : std::uint8_t { none, waiting, known };
  using Key = std::uint64_t;  // correlation with its epoch

  struct Launch {
    std::uint64_t time_ns = 0;
    std::uint64_t context_key = 0;
    std::uint32_t tid = 0;
    std::uint32_t cbid = 0;
    std::uint32_t executions = 0;
    // Those that came before the stack or the call's return was known, while waits() says so.
    ExecutionPool::Chain waiting = ExecutionPool::kEmpty;
    StackId stack = 0;
    StackState stack_state = StackState::none;
    bool several = false;                        // more than one execution may come
    bool kept = false;                           // listed in kept_
    bool return_due = false;                     // its RETURNED is waited for
    bool call_told = false;                      // its duration stands in a sample
    ExecutionKind kind = ExecutionKind::kernel;  // copy: it may be one that waits
    std::uint64_t returned_ns = 0;               // 0: not known
    [[nodiscard]] bool waits() const { return stack_state == StackState::waiting || return_due; }
  };
  struct Held {
    ExecutionPool::Chain chain = ExecutionPool::kEmpty;
    std::uint64_t cycle = 0;  // in which the first one was found
  };
  struct Early {
    std::uint64_t since_ns = 0;
    StackId stack = 0;
    bool has_stack = false;
    bool failed = false;
    bool captured = false;  // and so failed in name only
    std::uint64_t returned_ns = 0;
  };
  struct Timed {
    Key key = 0;
    std::uint64_t at = 0;  // cycle or nanoseconds
  };

  static constexpr Key kEpoch = Key{1} << 32;
  [[nodiscard]] Key nearest(std::uint32_t correlation);
  [[nodiscard]] Key extend(std::uint32_t correlation);
  [[nodiscard]] Key extend_launch(std::uint32_t correlation, std::uint64_t time_ns);
  void count_launch(std::uint64_t time_ns, std::uint64_t JoinCounters::*field);
  void adopt_held(Key key, Launch& launch);
  void take(Key key, Launch& launch, const Execution& execution);
  void release_if_done(Key key, Launch& launch);
  void make_room();
  void compact_order();
  Early* early(Key key);
  void drop_early(const Timed& oldest);
  void relieve_pool();
  bool decide_oldest_held(std::uint64_t found_before_cycle);
  void give_up_stack(Key key);
  void give_up_return(Key key);
  void await_return(Key key, const Launch& launch);
  void settle_waiting(Key key, Launch& launch);
  void on_drain_cycle_of_calls();
  [[nodiscard]] std::optional<SyncInterval> waiting_copy(const Launch& launch,
                                                         const Execution* execution) const;
  static void tell_call(Settled& settled, Launch& launch);
  void add_sync(const SyncInterval& call);
  void tell_observer(const SyncInterval& call, std::uint64_t end_ns) const;
  void close_open_calls(Window& closing) const;

  static void attribute(const Launch& launch, Settled& settled);
  [[nodiscard]] Settled judge(const Execution& execution, const Launch* launch, Key key) const;
  void settle(const Execution& execution, Launch* launch, Key key);
  [[nodiscard]] Window* window(WindowId id);
  [[nodiscard]] const Window* window(WindowId id) const;
  void describe(WindowData& data) const;

  const TargetId target_;
  const Limits limits_;
  std::uint64_t armed_ns_ = 0;
  std::uint64_t now_ns_ = 0;
  std::uint64_t cycle_ = 0;
  Key newest_ = 0;
  std::uint64_t newest_launch_ns_ = 0;           // 0: no launch yet
  Key first_ = std::numeric_limits<Key>::max();  // smallest of the launches since armed_ns

  FlatMap<Key, Launch> launches_;
  std::deque<Key> order_;  // launches by arrival; keys that have left stay until compact_order()
  std::deque<Key> kept_;   // joined launches that stay for more executions, by the time they were joined
  std::deque<Timed> stack_order_;  // launches waiting for a stack, until when
  std::deque<Timed>
      return_order_;         // launches that were executed and wait for their return, since which cycle
  FlatMap<Key, Held> held_;  // executions without launch
  std::deque<Timed> held_order_;
  // What came before the record of its call (a launch, or a synchronisation): stacks, failures, returns.
  FlatMap<Key, Early> early_;
  std::deque<Timed> early_order_;
  ExecutionPool pool_;
  ContextStacks context_stacks_;
  SyncCalls syncs_;
  std::uint64_t ended_ns_ = 0;  // 0: the session goes on

  std::unordered_map<std::uint32_t, std::string> names_;
  std::size_t names_bytes_ = 0;
  std::unordered_map<std::uint32_t, std::string> threads_;
  std::map<std::uint32_t, RawDevice> devices_;
  JoinCounters counters_;
  std::vector<Window> windows_;
  SettledObserver* observer_ = nullptr;
};

}  // namespace pillion::join
