// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

namespace pillion::timeline {

// Together at most some 60 MiB, over all windows and processes, and only while an idle profile is being
// taken: 20 MiB of executions and as much again while they are sorted, 10 of places, 5 of synchronisation
// calls, 4 of cells for each window (seldom more than a few hundred KiB).
struct Limits {
  // Executions that are kept because a later one may still change what is idle between them. Past it the
  // older half is decided, which holds the drain up for some 60 ms; at 100,000 executions a second that is at
  // least 2.6 s after they ended.
  std::size_t intervals_max = 1u << 19;
  std::size_t launches_max = 1u << 16;  // distinct places of launches
  std::size_t cells_max = 1u << 17;     // of one window: places by cause and edge
  std::size_t syncs_max = 1u << 17;
  std::size_t devices_max = 1024;  // of all sessions
  // Synchronisation calls are kept for so long behind what is decided: for a gap's cause they count from the
  // launch of what ran before it.
  std::uint64_t syncs_kept_ns = 1'000'000'000;
};

}  // namespace pillion::timeline
