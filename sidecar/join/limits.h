// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

namespace pillion::join {

struct Limits {
  std::size_t launches_max = 1u << 20;  // in the table, pending and kept ones together
  std::size_t kept_launches_max =
      1u << 17;  // joined launches of which more executions may come (graphs, copies)
  std::size_t held_executions_max = 1u << 18;  // waiting for their launch or for its stack
  std::size_t early_max = 1u << 16;            // stacks and failures that came before their launch
  std::size_t cells_max = 1u << 17;            // distinct samples of one window
  std::size_t latency_rows_max = 4096;         // kernels by stream of one window, with two histograms each
  std::size_t syncs_max = 1u << 16;            // synchronisation calls under way, or waiting for their stack
  std::size_t sync_cells_max = 1u << 16;       // distinct synchronisation samples of one window
  std::size_t context_keys_max = 1u << 16;
  std::size_t stacks_per_key_max = 64;
  std::size_t windows_max = 64;
  std::size_t names_max = 1u << 16;
  std::size_t names_bytes_max = 32u << 20;
  std::size_t name_bytes_max = 32u << 10;  // longer names are cut
  std::size_t threads_max = 1u << 16;

  // Drains that must have begun and ended after the one that found an execution before it counts as
  // launch-less. One is enough by construction (the launch record is published before the call reaches the
  // driver); the second is for a ring that was being reset.
  // So many drains, too, an execution waits for the return of its launch call: most calls have returned long
  // before, and one that goes on, as a large graph's, is told without its duration.
  std::uint32_t hold_drains = 2;

  // The GPU's clock as CUPTI converts it runs slightly off CLOCK_MONOTONIC (measured: 2 % of graph stamps lay
  // just outside their bracket); a start this much before its launch call is taken as it is, with queue time
  // 0.
  std::uint64_t clock_tolerance_ns = 2'000'000;
  // Stamps this far before arming belong to no session (a re-registered timestamp callback was seen 1e14 ns
  // off). Wide: work that was queued before is long.
  std::uint64_t session_tolerance_ns = 10'000'000'000;
  // Nothing ends after it was found in a ring; a stamp that does is wrong, and would fall into a later window
  // or none. Wider than any error of CUPTI's clock conversion.
  std::uint64_t arrival_tolerance_ns = 100'000'000;
  // Executions and stacks come with their launch: one whose correlation id is further ahead of the newest
  // launch than this is not one of ours, and must not move the epoch.
  std::uint32_t lead_max = 1u << 24;
  // A launch this much later than the newest one, and more than a quarter of all ids behind it, is ahead of
  // it: calls that are not recorded use up ids, too.
  std::uint64_t ids_wrapped_unseen_ns = 1'000'000'000;
  // How long a launch waits for a stack whose snapshot was published, and an early stack for its launch.
  std::uint64_t stack_wait_ns = 10'000'000'000;
};

}  // namespace pillion::join
