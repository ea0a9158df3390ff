// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/window_data.h"
#include "records.h"

// What the timeline hands to the profile when a window closes. Plain values, owned by whoever holds them.
namespace pillion {

// One arming of one process, numbered by the sidecar from 1 and never reused. A process that is armed again
// is another session: its stacks are numbered anew.
using SessionId = std::uint32_t;

// Why a device ran no kernel and no memset.
enum class IdleCause : std::uint8_t {
  host_bound,     // nothing that ran next had been launched yet
  queued,         // it had been launched: it waited for a dependency, or for the launch path
  synchronising,  // the launch came late because its thread had waited for the GPU
  copy,           // a copy was in flight
  unknown         // when the next one was launched is not known
};
inline constexpr std::size_t kIdleCauses = 5;
inline constexpr std::array<const char*, kIdleCauses> kIdleCauseNames = {"host-bound", "queued",
                                                                         "synchronising", "copy", "unknown"};

// A gap that the window cuts is shorter than it was.
enum class IdleEdge : std::uint8_t { none, begin, end, both };

// Idle time of one device that is charged alike.
struct IdleSample {
  SessionId session = 0;
  // Whose execution ended it; count, times and bytes are 0. When nothing did before the window's end (not
  // `ended`): the first launch whose execution had not come (`pending`; its context and stream are not
  // known), or nobody, and tid, cbid and stack are 0, too. device is the session's own number in any case.
  JoinedSample launch;
  std::uint64_t context_key = 0;  // with attribution context, until it is spread over stacks
  bool ended = true;
  bool pending = false;
  IdleCause cause = IdleCause::unknown;
  IdleEdge edge = IdleEdge::none;
  std::uint64_t gaps = 0;  // that have time here; one with several causes counts for each
  std::uint64_t ns = 0;
};

// One device over the whole window: busy_ns + the sum of idle_ns == window_ns, to the nanosecond.
struct DeviceUse {
  struct Member {
    SessionId session = 0;
    std::uint32_t device = 0;  // the session's own number
  };
  std::vector<Member> members;  // the sessions that use it, by session
  std::uint64_t window_ns = 0;
  std::uint64_t busy_ns = 0;                         // at least one kernel or memset ran, of any member
  std::uint64_t kernel_ns = 0;                       // kernels' times in the window, added up
  std::uint64_t kernel_busy_ns = 0;                  // at least one kernel ran
  std::array<std::uint64_t, kIdleCauses> idle_ns{};  // by IdleCause
};

// Each field is one counter of what an idle profile lost.
struct IdleCounters {
  std::uint64_t executions_late = 0;  // came after the gap that they lie in had been decided
  std::uint64_t gaps_merged = 0;      // charged to [other]: more launch sites than are kept
  std::uint64_t syncs_dropped = 0;    // synchronisation calls that were not remembered long enough
};

struct IdleData {
  std::vector<IdleSample> samples;
  std::vector<DeviceUse> devices;
  IdleCounters counters;
};

}  // namespace pillion
